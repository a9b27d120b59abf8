// Package exec runs model code, which is written once against Context. Eager dispatches each op into the C core;
// the contract of Context is such that contexts which only propagate shapes, or record a tape, can stand in its place.
package exec

import (
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// View is the operand and result of every op.
type View = skeep.View

// Context is what model code computes with.
//
// Contract, the same for every implementation:
//   - Views go in and out by value; the zero View is an absent operand. Results live in the
//     context's forward memory until the end of the next layer (see Layer), those behind the last Layer
//     call until the next step begins; whoever reads one later gets an error, never other bytes. Cache
//     views that KVStore returns are as long-lived as the caches.
//   - No op returns an error. The first error is kept, names op, tensor and layer, and makes every
//     later op return zero Views and do nothing; the driver asks Err once per step.
//   - Model code never reads an element between ops. Whatever changes from step to step is data in
//     I32 views: token ids, positions, sequence ids. Extents depend on the step's token count T and on
//     the number of rows whose logits are wanted, so that two steps of equal counts have the same tape.
//   - Layout arithmetic of a step goes through the context too, so that a recording sees it.
//   - An input may lie in any layout: one with gaps in its last axis (transposed, stepped) is copied where an op
//     reads rows, visibly in the trace. Caches that KVStore writes have none.
//   - A Context belongs to one goroutine at a time.
//
// Shapes: T tokens, [T, n] activations in F32. Each op's decomposition into primitives (MatMulT, Add,
// Mul, Softmax, elementwise functions, Gather, Scatter, Convert, Decode, Iota, view arithmetic) is in its comment; it is what the
// reference, the tape's consumers and the export use.
type Context interface {
	// Layer begins layer i (-1: what stands before the first or behind the last): it names the ops that
	// follow in errors and traces, and ends the results of the layer before the one before.
	Layer(i int)
	// Err is the first error of the step, or nil.
	Err() error

	// Input names a view that changes from step to step (ids, positions, sequences) or a cache, so that a
	// tape can bind it. It returns the same view under a value number of its own.
	Input(name string, v View) View

	// Embed gathers rows: y[t] = scale · decode(table[ids[t]]). ids [T] I32, table [vocab, n].
	Embed(table, ids View, scale float32) View
	// Norm is RMS normalisation with residuals: sum = x + before; y = sum/√(mean(sum²)+eps)·w + after,
	// along the last axis. before and after may be absent. sum is x itself when before is absent.
	// Zhang & Sennrich 2019.
	Norm(x, before, w, after View, eps float32) (sum, y View)
	// Project multiplies one input with one to three weights: y[i] = x · w[i]ᵀ + bias[i], w[i] [out_i, in],
	// bias[i] [out_i]; absent weights give absent results, absent biases add nothing. The activation is
	// quantized once for all weights that have integer kernels. = MatMulT, Add each.
	Project(x View, w, bias [3]View) [3]View
	// Rope rotates x [T, heads, head_dim] by its positions [T] I32; factors [dims/2] may be absent.
	// = x·cos + rotate(x)·sin with the angles that include/skeep.h states at skeep_rope.
	Rope(x, positions, factors View, p tensor.RopeParams) View
	// KVStore writes k, v [T, kv_heads, head_dim] at slot position mod capacity of each token's sequence
	// into the layer's caches [sequences, kv_heads, capacity, head_dim] and returns both caches whole, the
	// same bytes under new value numbers. sequences [T] I32 may be absent: all 0. A finite element that the cache's
	// format rounds to infinity is an error that names the cache and wraps *skeep.ValueError, with the element's index in
	// k or v. = Convert, Scatter.
	KVStore(k, v, positions, sequences, kCache, vCache View) (kAll, vAll View)
	// Attend is grouped-query attention over the caches: y = softmax(scale·q·Kᵀ + mask(positions))·V,
	// [T, heads, head_dim]. The mask follows from the positions alone: position p sees
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
	// Transpose exchanges two axes.
	Transpose(x View, a, b int) View
}
