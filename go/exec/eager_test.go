package exec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
)

func eager(t testing.TB, o Options) *Eager {
	if o.Pool == nil {
		pool, err := skeep.NewPool(2)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		o.Pool = pool
	}
	o.SlabBytes = max(o.SlabBytes, 1<<20)
	e, err := NewEager(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	require.NoError(t, e.Begin())
	return e
}

// f32s makes an F32 tensor of random values that stay away from zero.
func f32s(t testing.TB, name string, dims ...int64) View {
	v, err := skeep.Ambient().Alloc(name, f32, tensor.ShapeOf(dims...))
	require.NoError(t, err)
	n, err := v.Shape().Elements()
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(name))))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(r.NormFloat64()) + 0.01
	}
	require.NoError(t, v.WriteFloat32s(values))
	return v
}

func i32s(t testing.TB, name string, values ...int32) View {
	v, err := skeep.Ambient().Alloc(name, tensor.Dense(tensor.I32), tensor.ShapeOf(int64(len(values))))
	require.NoError(t, err)
	require.NoError(t, v.WriteInt32s(values))
	return v
}

// q4 makes a Q4_0 weight of random blocks.
func q4(t testing.TB, name string, out, in int64) View {
	s, err := skeep.Allocate(name, out*in/32*18)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, s.Size())
	for i := range b {
		b[i] = byte(r.Uint32())
		if i%18 < 2 { // the scale: halves from 2^-5 to 2^-4
			b[i] = [2]byte{byte(r.Uint32()), 0x28}[i%18]
		}
	}
	_, err = s.WriteAt(b, 0)
	require.NoError(t, err)
	v, err := s.View(name, 0, tensor.FormatOf(tensor.Q4_0), tensor.ShapeOf(out, in))
	require.NoError(t, err)
	return v
}

func floats(t testing.TB, v View) []float32 {
	n, err := v.Shape().Elements()
	require.NoError(t, err)
	out := make([]float32, n)
	require.NoError(t, v.CopyTo(out))
	return out
}

// product is x·wᵀ through Get.
func product(t testing.TB, x, w View) (y []float64) {
	T, n, out := x.Shape().Dims[0], x.Shape().Dims[1], w.Shape().Dims[0]
	for i := range T {
		for o := range out {
			sum := 0.0
			for k := range n {
				a, err := x.Get(i, k)
				require.NoError(t, err)
				b, err := w.Get(o, k)
				require.NoError(t, err)
				sum += a * b
			}
			y = append(y, sum)
		}
	}
	return y
}

func TestProjectMixesForms(t *testing.T) {
	x := f32s(t, "x", 3, 96)
	w := [3]View{q4(t, "q", 7, 96), f32s(t, "k", 5, 96), q4(t, "v", 2, 96)}
	bias := [3]View{f32s(t, "qb", 7), {}, {}}
	for _, exact := range []bool{true, false} {
		events := trace.NewRecorder(100)
		e := eager(t, Options{Exact: exact, Trace: events})
		y := e.Project(x, w, bias)
		require.NoError(t, e.End())
		for i := range w {
			want := product(t, x, w[i])
			got := floats(t, y[i])
			tolerance := 1e-4
			if !exact {
				tolerance = 0.15 // 8-bit activations
			}
			b := make([]float32, len(got))
			if !bias[i].IsZero() {
				row := floats(t, bias[i])
				for j := range b {
					b[j] = row[j%len(row)]
				}
			}
			for j := range got {
				require.InDelta(t, want[j]+float64(b[j]), got[j], tolerance, "weight %d element %d exact %v", i, j, exact)
			}
		}
		quantized := int64(1) // x once for both packed weights
		if exact {
			quantized = 0
		}
		require.Equal(t, quantized, events.Total(trace.Quantize).Count)
	}
}

func TestTransposedWeightIsCopiedVisibly(t *testing.T) {
	events := trace.NewRecorder(100)
	e := eager(t, Options{Trace: events})
	x, w := f32s(t, "x", 2, 7), q4(t, "w", 7, 96)
	turned := e.Transpose(w, 0, 1) // [96, 7]: blocks run along the rows
	y := e.MatMulT(x, turned)
	require.NoError(t, e.End())
	require.EqualValues(t, 1, events.Total(trace.Materialize).Count)
	require.EqualValues(t, 1, e.Copies())
	for j, want := range product(t, x, turned) {
		require.InDelta(t, want, floats(t, y)[j], 1e-3)
	}
}

func TestNormKeepsTheSum(t *testing.T) {
	e := eager(t, Options{})
	x, before, w, after := f32s(t, "x", 4, 33), f32s(t, "before", 4, 33), f32s(t, "w", 33), f32s(t, "after", 4, 33)
	sum, y := e.Norm(x, before, w, after, 1e-5)
	plain, _ := e.Norm(x, View{}, w, View{}, 1e-5)
	require.NoError(t, e.End())
	require.Equal(t, x, plain, "without before the sum is x itself")
	a, b, ws, as := floats(t, x), floats(t, before), floats(t, w), floats(t, after)
	for i := range 4 {
		var mean float64
		for j := range 33 {
			s := float64(a[i*33+j] + b[i*33+j])
			mean += s * s / 33
		}
		for j := range 33 {
			s := float64(a[i*33+j] + b[i*33+j])
			require.InDelta(t, s, floats(t, sum)[i*33+j], 1e-6)
			require.InDelta(t, s/math.Sqrt(mean+1e-5)*float64(ws[j])+float64(as[i*33+j]), floats(t, y)[i*33+j], 1e-5)
		}
	}
}

// TestDecompositions runs every fused op against the primitives that its comment names.
func TestDecompositions(t *testing.T) {
	e := eager(t, Options{Exact: true})
	const T, heads, kvHeads, dim, capacity = 5, 4, 2, 8, 32
	positions := i32s(t, "positions", 0, 1, 2, 3, 4)
	q, k, v := f32s(t, "q", T, heads, dim), f32s(t, "k", T, kvHeads, dim), f32s(t, "v", T, kvHeads, dim)
	kc, vc := f32s(t, "kc", 1, kvHeads, capacity, dim), f32s(t, "vc", 1, kvHeads, capacity, dim)
	kAll, vAll := e.KVStore(k, v, positions, View{}, kc, vc)
	a := e.Attend(q, kAll, vAll, positions, View{}, tensor.AttendParams{Scale: 0.5, Window: 3})
	require.NoError(t, e.Err())
	for h := range int(heads) {
		for i := range T {
			from := max(0, i-2)
			qi := e.Narrow(e.Merge(e.Narrow(e.Narrow(q, 0, i, 1), 1, h, 1), 0), 0, 0, 1) // [1, dim]
			keys := e.Merge(e.Merge(e.Narrow(e.Narrow(kAll, 1, h/2, 1), 2, from, i-from+1), 0), 0)
			values := e.Merge(e.Merge(e.Narrow(e.Narrow(vAll, 1, h/2, 1), 2, from, i-from+1), 0), 0)
			weights := e.Softmax(e.MatMulT(qi, keys), 0.5)
			want := e.MatMulT(weights, e.Transpose(values, 0, 1))
			require.NoError(t, e.Err())
			got := floats(t, e.Merge(e.Narrow(e.Narrow(a, 0, i, 1), 1, h, 1), 0))
			require.InDeltaSlice(t, floats(t, want), got, 1e-5, "head %d token %d", h, i)
		}
	}
	gate, up := f32s(t, "gate", 2, 9), f32s(t, "up", 2, 9)
	g := floats(t, e.GLU(gate, up, tensor.GLUSiLU))
	for i, x := range floats(t, gate) {
		require.InDelta(t, float64(x)/(1+math.Exp(-float64(x)))*float64(floats(t, up)[i]), g[i], 1e-5)
	}
	table, w := f32s(t, "table", 6, 16), f32s(t, "w", 4, 16)
	emb := e.Embed(table, i32s(t, "ids", 5, 0), 2)
	require.InDelta(t, 2*floats(t, table)[5*16+3], floats(t, emb)[3], 1e-6)
	logits, plain := floats(t, e.Logits(emb, w, 4)), floats(t, e.MatMulT(emb, w))
	for i := range plain {
		require.InDelta(t, 4*math.Tanh(float64(plain[i])/4), logits[i], 1e-5)
	}
	sum, prod := floats(t, e.Add(gate, up)), floats(t, e.Mul(gate, up))
	for i := range sum {
		require.Equal(t, floats(t, gate)[i]+floats(t, up)[i], sum[i])
		require.Equal(t, floats(t, gate)[i]*floats(t, up)[i], prod[i])
	}
	require.NoError(t, e.End())
}

func TestFirstErrorStaysAndNamesOpTensorLayer(t *testing.T) {
	e := eager(t, Options{})
	e.Layer(3)
	x, w := f32s(t, "x", 2, 8), f32s(t, "wide", 4, 9)
	y := e.MatMulT(x, w)
	require.True(t, y.IsZero())
	first := e.Err()
	require.Error(t, first)
	_ = e.Add(x, w)
	require.Equal(t, first, e.Err(), "the first error stays")
	var named *Error
	require.ErrorAs(t, e.End(), &named)
	require.Equal(t, 3, named.Layer)
	require.Equal(t, "matmul_t", named.Op)
	require.ErrorContains(t, first, "wide")
	require.NoError(t, e.Begin())
	require.NoError(t, e.Err())
	require.False(t, e.MatMulT(x, f32s(t, "fits", 4, 8)).IsZero())
	require.NoError(t, e.End())
}

func TestResultsLiveForTwoLayers(t *testing.T) {
	e := eager(t, Options{})
	x, w := f32s(t, "x", 1, 8), f32s(t, "w", 8, 8)
	e.Layer(0)
	a := e.MatMulT(x, w)
	e.Layer(1)
	b := e.MatMulT(a, w) // one layer later: fine
	e.Layer(2)
	_ = e.MatMulT(b, w)
	require.NoError(t, e.Err())
	_ = e.MatMulT(a, w) // two layers later: refused, never other bytes
	require.ErrorIs(t, e.Err(), skeep.ErrClosed)
	require.Error(t, e.End())
	require.NoError(t, e.Begin())
	_, err := b.Get(0, 0)
	require.ErrorIs(t, err, skeep.ErrClosed)
	require.NoError(t, e.End())
}

// TestStaleViewIntoEveryOp closes the storage of one operand after the other.
func TestStaleViewIntoEveryOp(t *testing.T) {
	ok := func(dims ...int64) View { return f32s(t, "fine", dims...) }
	stale := func(dims ...int64) View {
		s, err := skeep.Allocate("gone", 1<<16)
		require.NoError(t, err)
		v, err := s.View("stale", 0, f32, tensor.ShapeOf(dims...))
		require.NoError(t, err)
		require.NoError(t, s.Close())
		return v
	}
	staleIDs := func(n int64) View {
		s, err := skeep.Allocate("gone", 1<<10)
		require.NoError(t, err)
		v, err := s.View("stale", 0, tensor.Dense(tensor.I32), tensor.ShapeOf(n))
		require.NoError(t, err)
		require.NoError(t, s.Close())
		return v
	}
	ids := func() View { return i32s(t, "ids", 0, 1) }
	rope := tensor.RopeParams{Dims: 8, Base: 1e4, Scale: 1, AttnFactor: 1}
	attend := tensor.AttendParams{Scale: 1}
	cache := []int64{1, 2, 32, 8}
	for name, op := range map[string]func(c Context){
		"embed table":     func(c Context) { c.Embed(stale(4, 8), ids(), 1) },
		"embed ids":       func(c Context) { c.Embed(ok(4, 8), staleIDs(2), 1) },
		"norm x":          func(c Context) { c.Norm(stale(2, 8), View{}, ok(8), View{}, 1) },
		"norm before":     func(c Context) { c.Norm(ok(2, 8), stale(2, 8), ok(8), View{}, 1) },
		"norm w":          func(c Context) { c.Norm(ok(2, 8), View{}, stale(8), View{}, 1) },
		"norm after":      func(c Context) { c.Norm(ok(2, 8), View{}, ok(8), stale(2, 8), 1) },
		"project x":       func(c Context) { c.Project(stale(2, 8), [3]View{ok(4, 8)}, [3]View{}) },
		"project w":       func(c Context) { c.Project(ok(2, 8), [3]View{ok(4, 8), {}, stale(3, 8)}, [3]View{}) },
		"project bias":    func(c Context) { c.Project(ok(2, 8), [3]View{ok(4, 8)}, [3]View{stale(4)}) },
		"rope x":          func(c Context) { c.Rope(stale(2, 2, 8), ids(), View{}, rope) },
		"rope positions":  func(c Context) { c.Rope(ok(2, 2, 8), staleIDs(2), View{}, rope) },
		"rope factors":    func(c Context) { c.Rope(ok(2, 2, 8), ids(), stale(4), rope) },
		"store k":         func(c Context) { c.KVStore(stale(2, 2, 8), ok(2, 2, 8), ids(), View{}, ok(cache...), ok(cache...)) },
		"store cache":     func(c Context) { c.KVStore(ok(2, 2, 8), ok(2, 2, 8), ids(), View{}, ok(cache...), stale(cache...)) },
		"store sequences": func(c Context) { c.KVStore(ok(2, 2, 8), ok(2, 2, 8), ids(), staleIDs(2), ok(cache...), ok(cache...)) },
		"attend q":        func(c Context) { c.Attend(stale(2, 4, 8), ok(cache...), ok(cache...), ids(), View{}, attend) },
		"attend k":        func(c Context) { c.Attend(ok(2, 4, 8), stale(cache...), ok(cache...), ids(), View{}, attend) },
		"attend v":        func(c Context) { c.Attend(ok(2, 4, 8), ok(cache...), stale(cache...), ids(), View{}, attend) },
		"glu gate":        func(c Context) { c.GLU(stale(2, 8), ok(2, 8), tensor.GLUSiLU) },
		"glu up":          func(c Context) { c.GLU(ok(2, 8), stale(2, 8), tensor.GLUReLU) },
		"logits w":        func(c Context) { c.Logits(ok(2, 8), stale(4, 8), 1) },
		"add b":           func(c Context) { c.Add(ok(2, 8), stale(2, 8)) },
		"mul a":           func(c Context) { c.Mul(stale(2, 8), ok(2, 8)) },
		"softmax x":       func(c Context) { c.Softmax(stale(2, 8), 1) },
	} {
		e := eager(t, Options{})
		op(e)
		require.ErrorIs(t, e.Err(), skeep.ErrClosed, name)
		require.ErrorContains(t, e.Err(), "stale", name)
		require.ErrorContains(t, e.End(), "gone", name)
	}
}

func TestOpsDoNotAllocate(t *testing.T) {
	if underRace {
		t.Skip("allocations are not counted under the race detector")
	}
	e := eager(t, Options{})
	x, w, n := f32s(t, "x", 1, 96), q4(t, "w", 96, 96), f32s(t, "n", 96)
	step := func() {
		if e.Begin() != nil {
			t.Fatal(e.Err())
		}
		e.Layer(0)
		_, y := e.Norm(x, View{}, n, View{}, 1)
		p := e.Project(y, [3]View{w, w}, [3]View{})
		e.Logits(e.GLU(p[0], p[1], tensor.GLUSiLU), w, 30)
		if e.End() != nil {
			t.Fatal(e.Err())
		}
	}
	step()
	require.Zero(t, testing.AllocsPerRun(100, step))
}

func TestNewNeedsAPool(t *testing.T) {
	_, err := NewEager(Options{})
	require.ErrorIs(t, err, skeep.ErrArgument)
}

func TestRopeParamsReachTheCore(t *testing.T) {
	e := eager(t, Options{})
	x := f32s(t, "x", 1, 1, 8)
	p := tensor.RopeParams{Form: tensor.RopeNeoX, Dims: 4, Base: 100, Scale: 0.5, AttnFactor: 2}
	y := floats(t, e.Rope(x, i32s(t, "p", 3), View{}, p))
	require.NoError(t, e.End())
	in := floats(t, x)
	for i := range 2 {
		angle := 3 * 0.5 * math.Pow(100, -2*float64(i)/4)
		s, c := math.Sincos(angle)
		require.InDelta(t, 2*(float64(in[i])*c-float64(in[i+2])*s), y[i], 1e-5)
		require.InDelta(t, 2*(float64(in[i])*s+float64(in[i+2])*c), y[i+2], 1e-5)
	}
	require.Equal(t, in[4:], y[4:])
}

// The head_dim of values may be another than that of keys; of one position, the result is its value.
// A ring has lost what was overwritten, and the error of a token that attends to it says so, for each way to get there.
func TestAttendNamesWhatWasOverwritten(t *testing.T) {
	e := eager(t, Options{})
	cache := func(name string, dims ...int64) View { return f32s(t, name, dims...) }
	attend := func(q, k, v, positions, sequences View, window uint32) string {
		require.NoError(t, e.Begin())
		e.Attend(q, k, v, positions, sequences, tensor.AttendParams{Scale: 1, Window: window})
		err := e.End()
		require.ErrorIs(t, err, skeep.ErrShape)
		return err.Error()
	}
	k, v := cache("k", 2, 1, 4, 8), cache("v", 2, 1, 4, 8)
	const lost = "operand k_cache: a position that a token attends to has been overwritten: q [1 1 8]"
	for name, text := range map[string]string{
		"no window":       attend(f32s(t, "q", 1, 1, 8), k, v, i32s(t, "p", 4), View{}, 0),
		"a larger window": attend(f32s(t, "q", 1, 1, 8), k, v, i32s(t, "p", 9), View{}, 5),
		"of its sequence": attend(f32s(t, "q", 1, 1, 8), k, v, i32s(t, "p", 9), i32s(t, "s", 1), 5),
	} {
		require.Contains(t, text, lost, name)
	}
	require.Contains(t, attend(f32s(t, "q", 2, 1, 8), k, v, i32s(t, "p", 1, 5), View{}, 4), "has been overwritten", "by a later token of the call")
	require.Contains(t, attend(f32s(t, "q", 1, 1, 8), cache("k", 4, 8), v, i32s(t, "p", 1), View{}, 0), "shape does not fit the operation (axis 2)")
}

func TestAttendTakesValuesOfAnotherWidth(t *testing.T) {
	e := eager(t, Options{})
	v, position := f32s(t, "v", 1, 1, 24), i32s(t, "position", 0)
	require.NoError(t, e.Begin())
	kAll, vAll := e.KVStore(f32s(t, "k", 1, 1, 8), v, position, View{}, f32s(t, "k cache", 1, 1, 32, 8), f32s(t, "v cache", 1, 1, 32, 24))
	y := e.Attend(f32s(t, "q", 1, 2, 8), kAll, vAll, position, View{}, tensor.AttendParams{Scale: 1})
	require.NoError(t, e.End())
	require.Equal(t, tensor.ShapeOf(1, 2, 24), y.Shape())
	want := floats(t, v)
	require.Equal(t, append(want, want...), floats(t, y))
}
