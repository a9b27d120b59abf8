package exec

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
)

// opCase is one op over named inputs of these extents; run gets them in order.
type opCase struct {
	inputs  []tensor.Shape
	indices map[int]bool // inputs that are I32 and below 4
	run     func(c Context, in []View) []View
}

// everyOp is each op that reads rows, with all of its operands present.
var everyOp = map[string]opCase{
	"embed": {[]tensor.Shape{tensor.ShapeOf(4, 64), tensor.ShapeOf(3)}, map[int]bool{1: true},
		func(c Context, in []View) []View { return []View{c.Embed(in[0], in[1], 2)} }},
	"norm": {[]tensor.Shape{tensor.ShapeOf(3, 64), tensor.ShapeOf(3, 64), tensor.ShapeOf(64), tensor.ShapeOf(3, 64)}, nil,
		func(c Context, in []View) []View {
			sum, y := c.Norm(in[0], in[1], in[2], in[3], 1e-5)
			return []View{sum, y}
		}},
	"project": {[]tensor.Shape{tensor.ShapeOf(3, 64), tensor.ShapeOf(5, 64), tensor.ShapeOf(5), tensor.ShapeOf(7, 64)}, nil,
		func(c Context, in []View) []View {
			y := c.Project(in[0], [3]View{in[1], in[3]}, [3]View{in[2]})
			return y[:2]
		}},
	"matmul_t": {[]tensor.Shape{tensor.ShapeOf(2, 3, 64), tensor.ShapeOf(5, 64)}, nil,
		func(c Context, in []View) []View { return []View{c.MatMulT(in[0], in[1])} }},
	"rope": {[]tensor.Shape{tensor.ShapeOf(3, 2, 8), tensor.ShapeOf(3), tensor.ShapeOf(4)}, map[int]bool{1: true},
		func(c Context, in []View) []View {
			return []View{c.Rope(in[0], in[1], in[2], tensor.RopeParams{Dims: 8, Base: 100, Scale: 1, AttnFactor: 1})}
		}},
	"kv_store and attend": {[]tensor.Shape{tensor.ShapeOf(3, 2, 8), tensor.ShapeOf(3, 2, 8), tensor.ShapeOf(3), tensor.ShapeOf(3, 4, 8)}, map[int]bool{2: true},
		func(c Context, in []View) []View {
			cache := func(i int) View {
				v, err := skeep.Ambient().Alloc("cache", [2]tensor.Format{f32, tensor.Dense(tensor.F16)}[i], tensor.ShapeOf(1, 2, 32, 8))
				if err != nil {
					panic(err)
				}
				return v
			}
			var out []View
			for i := range 2 {
				k, v := c.KVStore(in[0], in[1], in[2], View{}, cache(i), cache(i))
				out = append(out, c.Attend(in[3], k, v, in[2], View{}, tensor.AttendParams{Scale: 0.5}))
			}
			return out
		}},
	"attend": {[]tensor.Shape{tensor.ShapeOf(3, 4, 8), tensor.ShapeOf(2, 2, 32, 8), tensor.ShapeOf(2, 2, 32, 8), tensor.ShapeOf(3), tensor.ShapeOf(3)}, map[int]bool{3: true, 4: true},
		func(c Context, in []View) []View {
			ones := c.Narrow(in[4], 0, 0, 3) // sequences: below 2
			return []View{c.Attend(in[0], in[1], in[2], in[3], ones, tensor.AttendParams{Scale: 0.5})}
		}},
	"glu": {[]tensor.Shape{tensor.ShapeOf(3, 8), tensor.ShapeOf(3, 8)}, nil,
		func(c Context, in []View) []View { return []View{c.GLU(in[0], in[1], tensor.GLUSiLU)} }},
	"logits": {[]tensor.Shape{tensor.ShapeOf(3, 64), tensor.ShapeOf(5, 64)}, nil,
		func(c Context, in []View) []View { return []View{c.Logits(in[0], in[1], 3)} }},
	"add": {[]tensor.Shape{tensor.ShapeOf(3, 8), tensor.ShapeOf(8)}, nil,
		func(c Context, in []View) []View { return []View{c.Add(in[0], in[1])} }},
	"mul": {[]tensor.Shape{tensor.ShapeOf(2, 3, 8), tensor.ShapeOf(2, 3, 8)}, nil,
		func(c Context, in []View) []View { return []View{c.Mul(in[0], in[1])} }},
	"softmax": {[]tensor.Shape{tensor.ShapeOf(2, 3, 8)}, nil,
		func(c Context, in []View) []View { return []View{c.Softmax(in[0], 0.5)} }},
}

// relayouts make a view of a shape by layout arithmetic on another tensor; nil when the shape has no such view. gaps
// says that the last axis is no longer gap-free.
var relayouts = map[string]struct {
	gaps bool
	make func(t *testing.T, make func(dims ...int64) View, s tensor.Shape) View
}{
	"transposed": {true, func(t *testing.T, make func(dims ...int64) View, s tensor.Shape) View {
		if s.Rank < 2 {
			return View{}
		}
		d := slices.Clone(s.Dims[:s.Rank])
		a, b := s.Rank-1, s.Rank-2
		d[a], d[b] = d[b], d[a]
		v, err := make(d...).Transpose(int(a), int(b))
		require.NoError(t, err)
		return v
	}},
	"outer axes transposed": {false, func(t *testing.T, make func(dims ...int64) View, s tensor.Shape) View {
		if s.Rank < 3 {
			return View{}
		}
		d := slices.Clone(s.Dims[:s.Rank])
		d[0], d[1] = d[1], d[0]
		v, err := make(d...).Transpose(0, 1)
		require.NoError(t, err)
		return v
	}},
	"stepped": {true, func(t *testing.T, make func(dims ...int64) View, s tensor.Shape) View {
		d := slices.Clone(s.Dims[:s.Rank])
		d[s.Rank-1] = 3*d[s.Rank-1] - 1
		v, err := make(d...).Step(int(s.Rank)-1, 3)
		require.NoError(t, err)
		return v
	}},
	"narrowed": {false, func(t *testing.T, make func(dims ...int64) View, s tensor.Shape) View {
		d := slices.Clone(s.Dims[:s.Rank])
		for a := range d {
			d[a] += 3
		}
		v := make(d...)
		for a := range d {
			var err error
			v, err = v.Narrow(a, 3, s.Dims[a])
			require.NoError(t, err)
		}
		return v
	}},
}

// TestEveryOpTakesEveryLayout gives each input of each op in other layouts: the results are those of a copy, and a
// copy that exec makes shows in the trace and in Copies. So model code that runs on integer products runs exactly.
func TestEveryOpTakesEveryLayout(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(everyOp)) {
		op := everyOp[name]
		for i := range op.inputs {
			for kind, relayout := range relayouts {
				for _, exact := range []bool{true, false} {
					for _, weight := range []tensor.Format{f32, tensor.Dense(tensor.F16), tensor.FormatOf(tensor.Q4_0)} {
						weights := name == "project" || name == "logits" || name == "matmul_t"
						if !weights && weight != f32 {
							continue
						}
						t.Run(fmt.Sprintf("%s/%d/%s/exact=%v/%v", name, i, kind, exact, weight), func(t *testing.T) {
							checkLayout(t, op, i, relayout.make, relayout.gaps && !op.indices[i] && !(name == "embed" && i == 0) && !(name == "rope" && i == 2), exact, weight)
						})
					}
				}
			}
		}
	}
}

func checkLayout(t *testing.T, op opCase, i int, relayout func(*testing.T, func(...int64) View, tensor.Shape) View, gaps, exact bool, weight tensor.Format) {
	events := trace.NewRecorder(100)
	e := eager(t, Options{Exact: exact, Trace: events})
	in := make([]View, len(op.inputs))
	for j, s := range op.inputs {
		make := func(dims ...int64) View {
			if op.indices[j] {
				n := int64(1)
				for _, d := range dims {
					n *= d
				}
				values := make([]int32, n)
				for k := range values {
					values[k] = int32(k) // consecutive positions; a step of 3 makes them 0, 3, 6
				}
				if j == 4 { // sequences
					for k := range values {
						values[k] %= 2
					}
				}
				if j == 1 && op.inputs[0].Rank == 2 { // ids
					for k := range values {
						values[k] = int32(k*k) % 4
					}
				}
				return i32s(t, "indices", values...)
			}
			return f32s(t, "x", dims...)
		}
		if j == i {
			in[j] = relayout(t, make, s)
			if in[j].IsZero() {
				return
			}
			continue
		}
		in[j] = make(s.Dims[:s.Rank]...)
		if s.Rank == 2 && j > 0 && (s.Dims[0] == 5 || s.Dims[0] == 7) && weight != f32 { // a weight
			in[j] = encoded(t, e, in[j], weight)
		}
	}
	plain := slices.Clone(in)
	var err error
	plain[i], err = skeep.Materialize(e.copier.Pool, "plain", in[i], in[i].Format(), skeep.Ambient())
	require.NoError(t, err)
	before, copies := events.Total(trace.Materialize).Count, e.Copies()
	var want [][]float32
	for _, v := range op.run(e, plain) {
		want = append(want, floats(t, v))
	}
	require.NoError(t, e.End())
	require.Equal(t, copies, e.Copies(), "the copy has no gaps")
	require.NoError(t, e.Begin())
	got := op.run(e, in)
	require.NoError(t, e.Err())
	made := e.Copies() - copies
	if gaps { // tables, indices and factors are read one by one
		require.Positive(t, made, "a copy was made and counted")
	}
	require.EqualValues(t, made, events.Total(trace.Materialize).Count-before, "each copy is in the trace")
	for k := range want {
		require.Equal(t, want[k], floats(t, got[k]), "result %d", k)
	}
	require.NoError(t, e.End())
}

// encoded is v in a weight's format.
func encoded(t *testing.T, e *Eager, v View, f tensor.Format) View {
	y, err := skeep.Copier{Pool: e.copier.Pool, Layer: -1}.Encode("w", v, f, skeep.Ambient())
	require.NoError(t, err)
	return y
}

// TestTransposedTableIsCopiedVisibly looks rows of a packed table up whose blocks run along the other axis.
func TestTransposedTableIsCopiedVisibly(t *testing.T) {
	events := trace.NewRecorder(100)
	e := eager(t, Options{Trace: events})
	table, err := q4(t, "w", 7, 96).Transpose(0, 1)
	require.NoError(t, err)
	y := e.Embed(table, i32s(t, "ids", 5, 95), 1)
	require.NoError(t, e.End())
	require.EqualValues(t, 1, e.Copies())
	require.EqualValues(t, 1, events.Total(trace.Materialize).Count)
	for i, id := range []int64{5, 95} {
		for j := range int64(7) {
			want, err := table.Get(id, j)
			require.NoError(t, err)
			got, err := y.Get(int64(i), j)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}
