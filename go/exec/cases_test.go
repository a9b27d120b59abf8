package exec

import (
	"testing"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// Two query heads and one KV head of four elements: rows permuted as converters do for llama, q with the query heads
// and k with the KV heads, rotate as neighbors to the scores that the rows as trained give as halves; any other
// pairing gives other scores.
// Case H07.
func TestPermutedRowsRotateAsNeighbors(t *testing.T) {
	const width, dim, position = 8, 4, 5
	q, k := f32s(t, "q", 2*dim, width), f32s(t, "kk", dim, width)
	x := f32s(t, "xx", 1, width)
	// Row 2i+j of a head is the trained row i + j*dim/2.
	permuted := func(v View, heads int) View {
		in, out := floats(t, v), make([]float32, heads*dim*width)
		for h := range heads {
			for i := range dim / 2 {
				for j := range 2 {
					copy(out[(h*dim+2*i+j)*width:][:width], in[(h*dim+i+j*dim/2)*width:][:width])
				}
			}
		}
		p, err := skeep.Ambient().Alloc(v.Name(), f32, tensor.ShapeOf(int64(heads*dim), width))
		require.NoError(t, err)
		require.NoError(t, p.WriteFloat32s(out))
		return p
	}
	scores := func(q, k View, form tensor.RopeForm) (s [2]float64) {
		e := eager(t, Options{Exact: true})
		p := tensor.RopeParams{Form: form, Dims: dim, Base: 100, Scale: 1, AttnFactor: 1}
		rotated := func(w View, heads, at int64) []float32 {
			y, err := e.MatMulT(x, w).Split(1, heads)
			require.NoError(t, err)
			return floats(t, e.Rope(y, i32s(t, "p", int32(at)), View{}, p))
		}
		a, b := rotated(q, 2, position), rotated(k, 1, 2)
		require.NoError(t, e.End())
		for h := range s {
			for i := range dim {
				s[h] += float64(a[h*dim+i]) * float64(b[i])
			}
		}
		return s
	}
	want := scores(q, k, tensor.RopeNeoX)
	got := scores(permuted(q, 2), permuted(k, 1), tensor.RopeNormal)
	wrong := scores(permuted(q, 2), permuted(k, 1), tensor.RopeNeoX)
	for h := range want {
		require.InDelta(t, want[h], got[h], 1e-4)
		require.Greater(t, max(wrong[h]-want[h], want[h]-wrong[h]), 1e-2)
	}
}
