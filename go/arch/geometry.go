package arch

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/skeep-project/skeep/go/tensor"
)

// kvRound is what the capacity of a cache is a multiple of.
const kvRound = 32

// KV holds the numbers that determine the size of the KV caches.
type KV struct {
	Context   int // positions of one sequence, at least 1
	Chunk     int // maximum tokens of one step, at least 1
	Sequences int // number of sequences that share the caches, at least 1
}

// Capacity is the number of slots per sequence in the layer's caches: the whole context, or with a sliding window the
// window plus one step, rounded up to a multiple of 32. The slot of a position is position mod capacity. It is 0 for a
// layer without attention.
func (l *Layer) Capacity(kv KV) int {
	if l.Heads == 0 {
		return 0
	}
	n := kv.Context
	if l.Window > 0 {
		n = min(n, l.Window+kv.Chunk)
	}
	return (n + kvRound - 1) / kvRound * kvRound
}

// Caches returns the shapes of the layer's caches of keys and values: [sequence, kv_head, slot, head_dim]. v has rank 0
// if the keys hold the values. ok is false for a layer without caches of its own.
func (l *Layer) Caches(kv KV) (k, v tensor.Shape, ok bool) {
	if l.Heads == 0 || l.Shared {
		return tensor.Shape{}, tensor.Shape{}, false
	}
	n, slots := int64(kv.Sequences), int64(l.Capacity(kv))
	k = tensor.ShapeOf(n, int64(l.KVHeads), slots, int64(l.KeyDim))
	if !l.Latent {
		v = tensor.ShapeOf(n, int64(l.KVHeads), slots, int64(l.ValueDim))
	}
	return k, v, true
}

// KVBytes is the size of the layer's caches in format f, 0 if it has none. Errors are those of f.Bytes: a head that is
// not a whole number of blocks, or a size beyond int64.
func (l *Layer) KVBytes(kv KV, f tensor.Format) (int64, error) {
	k, v, ok := l.Caches(kv)
	if !ok {
		return 0, nil
	}
	return sum(f, k, v)
}

// StateBytes is the size of what the layer remembers of all sequences whatever their length, in F32; 0 if it has no
// such state. A size beyond int64 is a *tensor.ShapeError.
func (l *Layer) StateBytes(kv KV) (int64, error) {
	n, err := sum(tensor.Dense(tensor.F32), l.State[:]...)
	if hi, total := bits.Mul64(uint64(n), uint64(max(kv.Sequences, 0))); err == nil && hi == 0 && total <= math.MaxInt64 {
		return int64(total), nil
	}
	return 0, tooLarge
}

// Formula says in words how KVBytes and StateBytes come about: "context × 8 KV heads × (128 + 128)", slots, heads, and the
// widths of a key and a value.
func (l *Layer) Formula() string {
	var parts []string
	slots := "context"
	if l.Window > 0 {
		slots = fmt.Sprintf("min(context, %d + chunk)", l.Window)
	}
	switch {
	case l.Heads > 0 && l.Shared:
		parts = append(parts, "the caches of an earlier layer")
	case l.Heads > 0 && l.Latent:
		parts = append(parts, fmt.Sprintf("%s × (%d latent + %d rotated)", slots, l.ValueDim, l.KeyDim-l.ValueDim))
	case l.Heads > 0:
		parts = append(parts, fmt.Sprintf("%s × %d KV heads × (%d + %d)", slots, l.KVHeads, l.KeyDim, l.ValueDim))
	}
	for i, name := range [...]string{"convolution", "state"} {
		if s := l.State[i]; s.Rank > 0 {
			parts = append(parts, fmt.Sprintf("%s %d × %d in F32", name, s.Dims[0], s.Dims[1]))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// KVBytes is the size of all KV caches in format f. Errors are those of f.Bytes: a head that is not a whole number of
// blocks, or a size beyond int64.
func (g *Geometry) KVBytes(kv KV, f tensor.Format) (int64, error) {
	return g.sum(func(l *Layer) (int64, error) { return l.KVBytes(kv, f) })
}

// StateBytes is the size of the recurrent state of all layers: see Layer.StateBytes.
func (g *Geometry) StateBytes(kv KV) (int64, error) {
	return g.sum(func(l *Layer) (int64, error) { return l.StateBytes(kv) })
}

var tooLarge = &tensor.ShapeError{Axis: -1, Reason: "more than 2⁶³ bytes in all"}

// sum adds what each layer takes.
func (g *Geometry) sum(of func(*Layer) (int64, error)) (total int64, err error) {
	for i := range g.Layers {
		n, err := of(&g.Layers[i])
		if err != nil {
			return 0, err
		}
		if total += n; total < 0 {
			return 0, tooLarge
		}
	}
	return total, nil
}

// sum is the bytes of the shapes that are there.
func sum(f tensor.Format, shapes ...tensor.Shape) (total int64, err error) {
	for _, s := range shapes {
		if s.Rank == 0 {
			continue
		}
		n, err := f.Bytes(s)
		if err != nil {
			return 0, err
		}
		if total += n; total < 0 {
			return 0, tooLarge
		}
	}
	return total, nil
}

// LayerBytes is an upper bound of the memory for the results of one layer, or of the ops before the first or after the
// last layer: every result of every op, and the quantized copy of every input of a product, each padded to 64 bytes.
// tokens is the number of rows of the step; logits is the number of rows for which logits are computed; integers says that
// products take activations in their integer form. A step needs twice this size, since results live until the end of the
// next layer. The result saturates at the largest int64.
func (g *Geometry) LayerBytes(tokens, logits int, integers bool) int64 {
	const align = 64
	t, total, peak := uint64(tokens), uint64(0), uint64(0)
	end := func() { peak, total = max(peak, total), 0 }
	add := func(bytesPerToken uint64) {
		hi, n := bits.Mul64(t, bytesPerToken)
		if total += (n + align - 1) &^ (align - 1); hi > 0 || n > math.MaxInt64 || total > math.MaxInt64 {
			total = math.MaxInt64
		}
	}
	// f32 adds results with so many elements per token; a8 their form as input of a product.
	f32 := func(widths ...int) {
		for _, w := range widths {
			add(4 * uint64(w))
		}
	}
	info, _ := tensor.A8.Info()
	a8 := func(w int) {
		if integers {
			add(uint64((w + info.BlockElements - 1) / info.BlockElements * info.BlockBytes))
		}
	}

	f32(g.Width) // embedding
	end()
	for i := range g.Layers {
		l := &g.Layers[i]
		q, k, v := l.Heads*l.KeyDim, l.KVHeads*l.KeyDim, l.KVHeads*l.ValueDim
		if l.Heads > 0 {
			f32(g.Width, g.Width) // residual sum and norm
			a8(g.Width)
			f32(q, k, v, q, k) // projections, rotated queries and keys
			if l.QKNorm {
				f32(q, k)
			}
			f32(l.Heads * l.ValueDim)
			a8(l.Heads * l.ValueDim)
			f32(g.Width)
			if l.PostNorms {
				f32(g.Width)
			}
		}
		if l.FF > 0 {
			f32(g.Width, g.Width)
			a8(g.Width)
			used := max(g.ExpertsUsed, 1)
			f32(used*l.FF, used*l.FF, used*l.FF) // gate, up, their product
			a8(used * l.FF)
			f32(used * g.Width)
			if g.Experts > 0 {
				f32(g.Experts, g.Experts, g.Width) // router, its softmax, the weighted sum
			}
			if l.PostNorms {
				f32(g.Width)
			}
		}
		for _, state := range l.State { // read and written back
			if state.Rank > 0 {
				f32(2 * int(state.Dims[1]))
			}
		}
		end()
	}
	t = uint64(logits)
	f32(g.Width, g.Width, g.Vocab) // residual sum, norm, logits
	a8(g.Width)
	end()
	return int64(peak)
}
