package arch

import (
	"math"
	"math/bits"

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

// Caches returns the shapes of the layer's caches of keys and values: [sequence, kv_head, slot, head_dim]. ok is false
// for a layer without attention.
func (l *Layer) Caches(kv KV) (k, v tensor.Shape, ok bool) {
	if l.Heads == 0 {
		return tensor.Shape{}, tensor.Shape{}, false
	}
	n, slots := int64(kv.Sequences), int64(l.Capacity(kv))
	return tensor.ShapeOf(n, int64(l.KVHeads), slots, int64(l.KeyDim)),
		tensor.ShapeOf(n, int64(l.KVHeads), slots, int64(l.ValueDim)), true
}

// KVBytes is the size of all KV caches in format f. Errors are those of f.Bytes: a head that is not a whole number of
// blocks, or a size beyond int64.
func (m *Model) KVBytes(kv KV, f tensor.Format) (int64, error) {
	total := int64(0)
	for i := range m.Layers {
		k, v, ok := m.Layers[i].Caches(kv)
		if !ok {
			continue
		}
		for _, s := range [...]tensor.Shape{k, v} {
			n, err := f.Bytes(s)
			if err != nil {
				return 0, err
			}
			if total += n; total < 0 {
				return 0, &tensor.ShapeError{Shape: s, Axis: -1, Reason: "more than 2⁶³ bytes in all layers"}
			}
		}
	}
	return total, nil
}

// LayerBytes is an upper bound of the memory for the results of one layer, or of the ops before the first or after the
// last layer: every result of every op, and the quantized copy of every input of a product, each padded to 64 bytes.
// tokens is the number of rows of the step; logits is the number of rows for which logits are computed. A step needs
// twice this size, since results live until the end of the next layer. The result saturates at the largest int64.
func (m *Model) LayerBytes(tokens, logits int) int64 {
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
	a8 := func(w int) { add(uint64((w + info.BlockElements - 1) / info.BlockElements * info.BlockBytes)) }

	f32(m.Width) // embedding
	end()
	for i := range m.Layers {
		l := &m.Layers[i]
		q, k, v := l.Heads*l.KeyDim, l.KVHeads*l.KeyDim, l.KVHeads*l.ValueDim
		if l.Heads > 0 {
			f32(m.Width, m.Width) // residual sum and norm
			a8(m.Width)
			f32(q, k, v, q, k) // projections, rotated queries and keys
			if l.QKNorm {
				f32(q, k)
			}
			f32(l.Heads * l.ValueDim)
			a8(l.Heads * l.ValueDim)
			f32(m.Width)
			if l.PostNorms {
				f32(m.Width)
			}
		}
		if l.FF > 0 {
			f32(m.Width, m.Width)
			a8(m.Width)
			used := max(m.ExpertsUsed, 1)
			f32(used*l.FF, used*l.FF, used*l.FF) // gate, up, their product
			a8(used * l.FF)
			f32(used * m.Width)
			if m.Experts > 0 {
				f32(m.Experts, m.Experts, m.Width) // router, its softmax, the weighted sum
			}
			if l.PostNorms {
				f32(m.Width)
			}
		}
		end()
	}
	t = uint64(logits)
	f32(m.Width, m.Width, m.Vocab) // residual sum, norm, logits
	a8(m.Width)
	end()
	return int64(peak)
}
