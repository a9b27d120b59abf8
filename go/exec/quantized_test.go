package exec

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Views that did not come through Input, and parts of one that share its value number, are different activations.
func TestProductsOfDifferentInputsDiffer(t *testing.T) {
	w := q4(t, "w", 7, 96)
	a, b := f32s(t, "a", 2, 96), f32s(t, "another", 2, 96)
	e := eager(t, Options{})
	parent := e.Input("x", f32s(t, "parent", 4, 96))
	first, err := parent.Narrow(0, 0, 2)
	require.NoError(t, err)
	second, err := parent.Narrow(0, 2, 2)
	require.NoError(t, err)
	for _, pair := range [][2]View{{a, b}, {first, second}} {
		y := [2]View{e.MatMulT(pair[0], w), e.MatMulT(pair[1], w)}
		require.NoError(t, e.Err())
		for i := range y {
			for j, want := range product(t, pair[i], w) {
				require.InDelta(t, want, floats(t, y[i])[j], 0.15)
			}
		}
	}
}

// Products of one result that follow each other, in whatever ops, share its integer form; it is made anew when the result
// was written to.
func TestAResultIsQuantizedOnce(t *testing.T) {
	events := trace.NewRecorder(100)
	e := eager(t, Options{Trace: events})
	x, w := f32s(t, "x", 2, 96), q4(t, "w", 7, 96)
	y := e.Add(x, x)
	e.Project(y, [3]View{w, w, w}, [3]View{})
	e.MatMulT(y, w)
	e.Logits(y, w, 30)
	require.NoError(t, e.Err())
	require.EqualValues(t, 1, events.Total(trace.Quantize).Count)
	require.NoError(t, y.WriteFloat32s(floats(t, x)))
	e.MatMulT(y, w)
	require.NoError(t, e.Err())
	require.EqualValues(t, 2, events.Total(trace.Quantize).Count)
}

// A view of a slab's bytes that no tensor has taken yet is not remembered: the next result may lie there.
func TestProductsOfBytesThatAResultTakes(t *testing.T) {
	w, x := q4(t, "w", 7, 96), f32s(t, "x", 1, 96)
	e := eager(t, Options{})
	slab := e.Add(x, x).Storage()
	const free = 16 << 10
	later, err := slab.View("", free, f32, tensor.ShapeOf(1, 96))
	require.NoError(t, err)
	require.Equal(t, make([]float32, 7), floats(t, e.MatMulT(later, w)))
	for range free / (4 * 96) {
		e.Add(x, x)
	}
	y := floats(t, e.MatMulT(later, w))
	require.NoError(t, e.Err())
	for i, want := range product(t, later, w) {
		require.InDelta(t, want, y[i], 0.15)
	}
	require.NotEqual(t, make([]float32, 7), y)
}

// TestProductsEqualAFreshContext: whatever came before in a step, a product has the bits that a context gives which
// sees nothing else. Inputs and results are cut, split and turned by the context and without it, and written to by every
// way there is between two products.
func TestProductsEqualAFreshContext(t *testing.T) {
	const rows, width = 64, 96
	pool, err := skeep.NewPool(1)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	weights := map[int64][2]View{}
	for _, in := range []int64{32, 64, 96} {
		weights[in] = [2]View{q4(t, "q", 5, in), q4(t, "other", 3, in)}
	}
	must := func(v View, err error) View {
		require.NoError(t, err)
		return v
	}
	alone := func(x, w View) []float32 {
		copied := must(skeep.Ambient().Alloc("copied", f32, x.Shape()))
		require.NoError(t, copied.WriteFloat32s(floats(t, x)))
		e, err := NewEager(Options{Pool: pool})
		require.NoError(t, err)
		require.NoError(t, e.Begin())
		y := e.MatMulT(copied, w)
		require.NoError(t, e.End())
		defer func() { require.NoError(t, e.Close()) }()
		return floats(t, y)
	}
	rapid.Check(t, func(r *rapid.T) {
		foreign := make([]byte, 4*rows*width)
		borrowed, err := skeep.Borrow("borrowed", foreign)
		require.NoError(r, err)
		defer func() { require.NoError(r, borrowed.Close()) }()
		e, err := NewEager(Options{Pool: pool, SlabBytes: rapid.SampledFrom([]int64{0, 1 << 17, 1 << 21}).Draw(r, "slab")})
		require.NoError(r, err)
		defer func() { require.NoError(r, e.Close()) }()
		require.NoError(r, e.Begin())
		layer := 0
		type value struct {
			View
			layer int // that ends with the next but one; inputs never do
		}
		const forever = 1 << 30
		var values []value
		var last, whole View // what was multiplied, and of what it is a part
		for _, name := range []string{"one", "second", "the third"} {
			v := f32s(t, name, rows, width)
			if rapid.Bool().Draw(r, "named") {
				v = e.Input(name, v)
			}
			values = append(values, value{v, forever})
		}
		values = append(values, value{must(borrowed.View("borrowed", 0, f32, tensor.ShapeOf(rows, width))), forever})
		pick := func() View {
			if !whole.IsZero() && rapid.Bool().Draw(r, "multiplied before") {
				return whole
			}
			return rapid.SampledFrom(values).Draw(r, "view").View
		}
		part := func(v View) View { // of [rows, width]
			direct := rapid.Bool().Draw(r, "without context")
			narrow := func(v View, axis, start, n int) View {
				if direct {
					return must(v.Narrow(axis, int64(start), int64(n)))
				}
				return e.Narrow(v, axis, start, n)
			}
			switch rapid.IntRange(0, 4).Draw(r, "cut") {
			case 0:
				n := rapid.IntRange(1, rows).Draw(r, "rows")
				return narrow(v, 0, rapid.IntRange(0, rows-n).Draw(r, "from"), n)
			case 1:
				n := 32 * rapid.IntRange(1, 2).Draw(r, "columns")
				return narrow(v, 1, rapid.IntRange(0, width-n).Draw(r, "from"), n)
			case 2:
				i := rapid.IntRange(0, 2).Draw(r, "part")
				if direct {
					return must(must(must(v.Split(1, 3)).Narrow(1, int64(i), 1)).Squeeze(1))
				}
				return e.Merge(e.Narrow(e.Split(v, 1, 3), 1, i, 1), 1)
			case 3:
				if direct {
					return must(v.Transpose(0, 1))
				}
				return e.Transpose(v, 0, 1)
			}
			return v
		}
		numbers := func(v View) []float32 {
			n, err := v.Shape().Elements()
			require.NoError(r, err)
			new := make([]float32, n)
			factor := rapid.Float32Range(-3, 3).Draw(r, "factor")
			for i := range new {
				new[i] = factor * float32(i%7)
			}
			return new
		}
		r.Repeat(map[string]func(*rapid.T){
			"product": func(*rapid.T) {
				if last.IsZero() || rapid.Bool().Draw(r, "another") {
					whole = pick()
					last = part(whole)
				}
				x := last
				ws := weights[x.Shape().Dims[1]]
				first, second := e.MatMulT(x, ws[0]), e.MatMulT(x, ws[1])
				require.NoError(r, e.Err())
				require.Equal(r, alone(x, ws[0]), floats(t, first))
				require.Equal(r, alone(x, ws[1]), floats(t, second))
			},
			"result": func(*rapid.T) {
				values = append(values, value{e.Add(pick(), pick()), layer})
				require.NoError(r, e.Err())
			},
			"layer": func(*rapid.T) {
				layer++
				e.Layer(layer)
				last, whole = View{}, View{}
				values = slices.DeleteFunc(values, func(v value) bool { return v.layer < layer-1 })
			},
			"write": func(*rapid.T) {
				v := part(pick())
				require.NoError(r, v.WriteFloat32s(numbers(v)))
			},
			"write past the package": func(*rapid.T) {
				for i := range foreign {
					foreign[i] = byte(i%4) * byte(i) & 0x3f // small numbers
				}
				foreign[3] ^= byte(rapid.IntRange(0, 63).Draw(r, "number"))
			},
			"write through the storage": func(*rapid.T) {
				s, b := pick().Storage(), binary.LittleEndian.AppendUint32(nil, math.Float32bits(rapid.Float32Range(-3, 3).Draw(r, "number")))
				_, err := s.WriteAt(b, 4*rapid.Int64Range(0, min(s.Size()/4, 2*rows*width)-1).Draw(r, "at"))
				require.NoError(r, err)
			},
			"write through an alias": func(*rapid.T) {
				v := must(pick().Storage().View("alias", 0, f32, tensor.ShapeOf(width)))
				require.NoError(r, v.WriteFloat32s(numbers(v)))
			},
			"encode into": func(*rapid.T) {
				require.NoError(r, skeep.Copier{Pool: pool, Layer: -1}.EncodeTo(f32s(t, "source", rows, width), pick()))
			},
			"store into": func(*rapid.T) {
				k, other := f32s(t, "k", 1, 1, width), f32s(t, "cache", 1, 1, rows, width)
				position := i32s(t, "position", rapid.Int32Range(0, 200).Draw(r, "position"))
				e.KVStore(k, k, position, View{}, must(must(pick().Unsqueeze(0)).Unsqueeze(0)), other)
				require.NoError(r, e.Err())
			},
		})
	})
}
