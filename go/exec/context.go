// Package exec runs model code. Model code is written once, against the interface Context. Eager implements it by
// calling the C core for each op. The contract of Context also allows implementations that only propagate shapes or
// record a tape.
package exec

import (
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// View is the operand and result of every op.
type View = skeep.View

// Context is the set of operations that model code computes with.
//
// Every implementation has the same contract:
//   - Views are passed by value; the zero View is an absent operand. Results live in the context's forward memory until
//     the end of the next layer (see Layer); those made after the last Layer call live until the next step begins. A
//     later read is an error; it never returns other bytes. Cache views that KVStore returns live as long as the
//     caches.
//   - No op returns an error. The context keeps the first error, which names op, tensor and layer. Every later op does
//     nothing and returns zero Views. The caller checks Err once per step.
//   - Model code never reads an element between ops. Whatever changes from step to step is data in I32 views: token
//     ids, positions, sequence ids. Extents depend only on the step's token count T and on the number of rows that Last
//     keeps, so two steps with equal counts have the same tape.
//   - Model code also calls the context for layout arithmetic, so that a tape records it.
//   - An input may have any layout. If its last axis has gaps (transposed, stepped), an op that reads rows copies it
//     first, and the trace records the copy. The caches of KVStore must not have such gaps.
//   - A Context must be used by one goroutine at a time.
//
// Shapes: T tokens, [T, n] activations in F32. Each op's decomposition into primitives (MatMulT, Add, Mul, Softmax,
// elementwise functions, Gather, Scatter, Convert, Decode, Iota, view arithmetic) is in its comment; tests, readers of
// tapes and exports use it.
type Context interface {
	// Layer begins layer i (-1 for the ops before the first or after the last layer). Errors and traces of the ops that
	// follow state it. It ends the results of the layer before the previous one.
	Layer(i int)
	// Err is the first error of the step, or nil.
	Err() error

	// Input names a view that changes from step to step (ids, positions, sequences) or a cache, so that a tape can bind
	// it. It returns the view with a new value number.
	Input(name string, v View) View

	// Embed gathers rows: y[t] = scale · decode(table[ids[t]]). ids [T] I32, table [vocab, n].
	Embed(table, ids View, scale float32) View
	// Norm is RMS normalization with residuals: sum = x + before; y = sum/√(mean(sum²)+eps)·w + after, along the last
	// axis. before and after may be absent. sum is x itself when before is absent. Zhang & Sennrich 2019.
	Norm(x, before, w, after View, eps float32) (sum, y View)
	// Project multiplies one input with one to three weights: y[i] = x · w[i]ᵀ + bias[i], w[i] [out_i, in], bias[i]
	// [out_i]; an absent weight gives an absent result, an absent bias adds nothing. The activation is quantized once
	// for all weights that have integer kernels. = MatMulT, Add each.
	Project(x View, w, bias [3]View) [3]View
	// Rope rotates x [T, heads, head_dim] by its positions [T] I32; factors [dims/2] may be absent.
	// = x·cos + rotate(x)·sin with the angles that include/skeep.h states at skeep_rope.
	Rope(x, positions, factors View, p tensor.RopeParams) View
	// KVStore writes k, v [T, kv_heads, head_dim] at slot position mod capacity of each token's sequence into the
	// layer's caches [sequences, kv_heads, capacity, head_dim] and returns views of both whole caches with new value
	// numbers. sequences [T] I32 may be absent: all 0. A finite element that the cache's format rounds to infinity is
	// an error that names the cache and wraps *skeep.ValueError, with the element's index in k or v. = Convert,
	// Scatter.
	KVStore(k, v, positions, sequences, kCache, vCache View) (kAll, vAll View)
	// Attend is grouped-query attention over the caches: y = softmax(scale·q·Kᵀ + mask(positions))·V,
	// [T, heads, head_dim of the values]. The mask follows from the positions alone: position p sees
	// max(0, p-window+1)…p; slot s holds for it position p - (p-s) mod capacity. = MatMulT, Softcap, mask
	// (Iota, compare, select), Softmax, MatMulT per head.
	Attend(q, kAll, vAll, positions, sequences View, p tensor.AttendParams) View
	// GLU is act(gate) · up, elementwise. Shazeer 2020.
	GLU(gate, up View, form tensor.GLUForm) View
	// Logits is x · wᵀ, then softcap·tanh(·/softcap) when softcap > 0. = MatMulT, Softcap.
	Logits(x, w View, softcap float32) View

	// MatMulT is the primitive product x[T, in] · w[out, in]ᵀ.
	MatMulT(x, w View) View
	// Add and Mul are elementwise; b has a's shape or is one row broadcast over a's rows.
	Add(a, b View) View
	Mul(a, b View) View
	// Softmax of scale·x along the last axis.
	Softmax(x View, scale float32) View

	// Split turns axis of extent a·b into two axes of extents a and b: [T, heads·dim] → [T, heads, dim].
	Split(x View, axis int, a int) View
	// Merge joins axis and axis+1 where strides allow; an axis of extent 1 always merges.
	Merge(x View, axis int) View
	// Narrow keeps length indices of axis from start on.
	Narrow(x View, axis int, start, length int) View
	// Last keeps the last rows of the step's tokens: those whose logits are wanted. = Narrow of axis 0.
	Last(x View, rows int) View
	// Transpose exchanges two axes.
	Transpose(x View, a, b int) View
}
