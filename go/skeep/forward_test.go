package skeep

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

func newForward(t testing.TB, bytes int64, opts ...Option) *ForwardScope {
	t.Helper()
	s, err := NewForwardScope("step", bytes, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !s.storage.Closed() {
			assert.NoError(t, s.Close())
		}
	})
	return s
}

func alloc(t testing.TB, s Scope, name string, dims ...int64) View {
	t.Helper()
	v, err := s.Alloc(name, tensor.Dense(tensor.F32), tensor.ShapeOf(dims...))
	require.NoError(t, err)
	return v
}

func fill(t testing.TB, v View, value float32) {
	t.Helper()
	n, err := v.Shape().Elements()
	require.NoError(t, err)
	values := make([]float32, n)
	for i := range values {
		values[i] = value
	}
	require.NoError(t, v.WriteFloat32s(values))
}

func first(t testing.TB, v View) float64 {
	t.Helper()
	got, err := v.Get(make([]int64, v.Shape().Rank)...)
	require.NoError(t, err)
	return got
}

func TestSlabBumps(t *testing.T) {
	s := newForward(t, 1024, offheap)
	a, b := alloc(t, s, "a", 3), alloc(t, s, "b", 17)
	require.Equal(t, tensor.OffHeap, a.Domain())
	require.Zero(t, a.desc.Data%64)
	require.Equal(t, a.desc.Data+64, b.desc.Data)
	require.EqualValues(t, 64+128, s.Used())
	fill(t, a, 1)
	fill(t, b, 2)
	require.Equal(t, []float64{1, 2}, []float64{first(t, a), first(t, b)})
	for _, d := range []tensor.DType{tensor.I8, tensor.F16, tensor.I64, tensor.F64} {
		_, err := s.Alloc("any dtype", tensor.Dense(d), tensor.ShapeOf(2))
		require.NoError(t, err)
	}
	x, err := s.Alloc("codes", tensor.FormatOf(tensor.A8), tensor.ShapeOf(1, 100))
	require.NoError(t, err)
	require.EqualValues(t, 160, x.Bytes())
	require.NoError(t, s.Reset(nil))
	require.Zero(t, s.Used())
	require.EqualValues(t, 64+128+4*64+192, s.Peak())
	require.EqualValues(t, 1024, s.Size())
	require.Equal(t, a.desc.Data, alloc(t, s, "again", 3).desc.Data)
}

func TestResetEndsViews(t *testing.T) {
	s := newForward(t, 1024)
	alloc(t, s, "before", 5)
	a := alloc(t, s, "hidden state", 3)
	outer, err := s.Mark()
	require.NoError(t, err)
	b := alloc(t, s, "scores", 3)
	require.NoError(t, s.Reset(nil))
	c := alloc(t, s, "next step", 3)
	for v, name := range map[*View]string{&a: "hidden state", &b: "scores"} {
		require.False(t, v.Live())
		_, err := v.Get(0)
		requireError(t, err, ErrClosed, "step", name)
		requireError(t, v.WriteFloat32s(make([]float32, 3)), ErrClosed, "step", name)
	}
	require.True(t, c.Live())
	requireError(t, outer.Release(nil), ErrClosed, "step", "")
	require.NoError(t, s.Reset(nil))
	require.NoError(t, s.Reset(nil))
	_, err = a.WithValue(17).Get(0)
	requireError(t, err, ErrClosed, "step", "value 17") // too long ago for a name
}

func TestMarksNest(t *testing.T) {
	s := newForward(t, 4096)
	a := alloc(t, s, "a", 16)
	outer, err := s.Mark()
	require.NoError(t, err)
	b := alloc(t, s, "b", 16)
	inner, err := s.Mark()
	require.NoError(t, err)
	c := alloc(t, s, "c", 16)
	used := s.Used()
	require.NoError(t, inner.Release(nil))
	require.Equal(t, used-64, s.Used())
	require.Equal(t, []bool{true, true, false}, []bool{a.Live(), b.Live(), c.Live()})
	requireError(t, inner.Release(nil), ErrClosed, "step", "")
	c2 := alloc(t, s, "c2", 16)
	require.Equal(t, c.desc.Data, c2.desc.Data)
	require.False(t, c.Live(), "the bytes are taken again, the old view stays dead")
	inner, err = s.Mark()
	require.NoError(t, err)
	d := alloc(t, s, "d", 16)
	require.NoError(t, outer.Release(nil)) // and what is inside
	require.Equal(t, []bool{true, false, false, false}, []bool{a.Live(), b.Live(), c2.Live(), d.Live()})
	requireError(t, inner.Release(nil), ErrClosed, "step", "")
	require.EqualValues(t, 64, s.Used())
	require.Error(t, Mark{}.Release(nil))
	// The scope itself closes everything.
	_, err = s.Mark()
	require.NoError(t, err)
	e := alloc(t, s, "e", 1)
	require.NoError(t, s.Close())
	_, err = e.Get(0)
	requireError(t, err, ErrClosed, "step", "e")
	_, err = s.Alloc("late", tensor.Dense(tensor.F32), tensor.ShapeOf(1))
	requireError(t, err, ErrClosed, "step", "late")
	_, err = s.Mark()
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, s.Reset(nil), ErrClosed)
	require.ErrorIs(t, s.Close(), ErrClosed)
}

func TestOverflowIsCountedAndNamed(t *testing.T) {
	rec := trace.NewRecorder(10)
	before := settled(t)
	s := newForward(t, 256, WithTrace(rec))
	slab := Stats()
	a := alloc(t, s, "a", 32)
	mark, err := s.Mark()
	require.NoError(t, err)
	big := alloc(t, s, "big", 100)
	small := alloc(t, s, "small", 32) // still fits
	require.EqualValues(t, 256, s.Used())
	full := alloc(t, s, "full", 1)
	require.Equal(t, Overflow{Count: 2, Bytes: 404, First: "big"}, s.Overflow())
	require.EqualValues(t, 128+448+128+64, s.Peak(), "the slab that would have held it")
	require.Equal(t, trace.Total{Count: 2, Bytes: 404}, rec.Total(trace.Overflow))
	fill(t, big, 3)
	require.Equal(t, 3.0, first(t, big))
	require.True(t, full.Live())
	require.Equal(t, slab.Storages+2, Stats().Storages)
	require.NoError(t, mark.Release(nil))
	require.Equal(t, slab, Stats())
	_, err = big.Get(0)
	requireError(t, err, ErrClosed, "step", "big")
	require.False(t, small.Live())
	require.True(t, a.Live())
	big = alloc(t, s, "big again", 100)
	require.NoError(t, s.Reset(nil))
	require.False(t, big.Live())
	require.Equal(t, slab, Stats())
	alloc(t, s, "fits", 64)
	alloc(t, s, "not", 64)
	require.NoError(t, s.Close())
	require.Equal(t, before, Stats())

	strict := newForward(t, 256, OverflowFails())
	alloc(t, strict, "a", 32)
	_, err = strict.Alloc("big", tensor.Dense(tensor.F32), tensor.ShapeOf(100))
	requireError(t, err, ErrOverflow, "step", "big")
	require.Contains(t, err.Error(), "400 bytes needed, 128 of 256 are free")
	require.EqualValues(t, 1, strict.Overflow().Count)
	_, err = strict.Alloc("huge", tensor.Dense(tensor.F32), tensor.ShapeOf(math.MaxInt64))
	require.Error(t, err)
	for range 3 { // the sum ends where it would wrap
		_, err = strict.Alloc("large", tensor.Dense(tensor.F32), tensor.ShapeOf(1<<60))
		require.ErrorIs(t, err, ErrOverflow)
	}
	require.Equal(t, Overflow{Count: 4, Bytes: math.MaxInt64, First: "big"}, strict.Overflow())

	// What no memory is there for is an error of its own, and nothing that did not fit.
	_, err = s.Mark()
	require.ErrorIs(t, err, ErrClosed)
	s = newForward(t, 256)
	_, err = s.Alloc("large", tensor.Dense(tensor.F32), tensor.ShapeOf(1<<58))
	require.ErrorIs(t, err, ErrMemory)
	require.Zero(t, s.Overflow())
	_, err = new(ForwardScope).Mark()
	require.ErrorIs(t, err, ErrClosed)
}

// Within a running step its own pins are not waited for, on the slab and on what did not fit it.
func TestResetWithinAStep(t *testing.T) {
	pool := newPool(t)
	step, err := NewStep(0)
	require.NoError(t, err)
	defer step.Close()
	require.NoError(t, step.Begin())
	s := newForward(t, 1024, offheap)
	mark, err := s.Mark()
	require.NoError(t, err)
	for range 2 {
		x := alloc(t, s, "x", 128)
		fill(t, x, 2)
		y, err := Copier{Pool: pool, Step: step, Layer: -1}.Materialize("y", x, tensor.Dense(tensor.F32), s)
		require.NoError(t, err)
		z, err := Copier{Pool: pool, Step: step, Layer: -1}.Materialize("z", y, tensor.Dense(tensor.F32), s)
		require.NoError(t, err)
		require.Equal(t, 2.0, first(t, z))
		if mark.scope != nil {
			require.NoError(t, mark.Release(step))
			mark = Mark{}
			continue
		}
		require.NoError(t, s.Reset(step))
		require.False(t, z.Live())
	}
	require.EqualValues(t, 2, s.Overflow().Count)
	own, err := Allocate("own", 4*64, offheap)
	require.NoError(t, err)
	v, err := own.View("v", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(64))
	require.NoError(t, err)
	_, err = Copier{Pool: pool, Step: step, Layer: -1}.Materialize("y", v, tensor.Dense(tensor.F32), s)
	require.NoError(t, err)
	requireError(t, own.TryClose(), ErrBusy, "own", "")
	require.NoError(t, own.CloseIn(step))
	requireError(t, own.CloseIn(step), ErrClosed, "own", "")
	require.NoError(t, step.End())
}

// Who reads a tensor of the scope is waited for, and who reads the slab otherwise is not.
func TestResetWaitsForUses(t *testing.T) {
	s := newForward(t, 1024)
	defer pin(t, s.storage)()
	v := alloc(t, s, "x", 64)
	within(t, "a reset under a use of the whole slab", func() { require.NoError(t, s.Reset(nil)) })
	require.False(t, v.Live())
	v = alloc(t, s, "x", 64)
	p, st := core.Pin(core.Storage{Cell: v.desc.Cell, Generation: v.desc.Generation})
	require.Equal(t, core.OK, st.Code)
	mark, err := s.Mark()
	require.NoError(t, err)
	alloc(t, s, "y", 64)
	within(t, "a release under a use of what is older", func() { require.NoError(t, mark.Release(nil)) })
	done := make(chan error)
	go func() { done <- s.Reset(nil) }()
	for v.Live() {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatal("reset under a use", err)
	case <-time.After(5 * time.Millisecond):
	}
	require.Equal(t, core.OK, core.Unpin(p).Code)
	within(t, "the reset", func() { require.NoError(t, <-done) })
}

// Levels that begin and end take no memory, however often, and the latest stay known by name.
func TestMarkAndReleaseKeepNothing(t *testing.T) {
	s := newForward(t, 4096)
	alloc(t, s, "outer", 1)
	var last View
	round := func() {
		mark, err := s.Mark()
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Alloc("level", tensor.Dense(tensor.F32), tensor.ShapeOf(1))
		if err != nil {
			t.Fatal(err)
		}
		last = v
		if err := mark.Release(nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 * endedNames { // the tables of names grow to their size
		round()
	}
	slots := core.ReadCounters().Slots
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 20000
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(rounds), "a byte a round")
	require.Equal(t, slots, core.ReadCounters().Slots)
	_, err := last.Get(0)
	requireError(t, err, ErrClosed, "step", "level")
}

// Readers of a slab on the Go heap race with its resets: they see whole steps or errors.
func TestResetUnderLoad(t *testing.T) {
	s := newForward(t, 4096, heap)
	views := make(chan View, 64)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			buf := make([]float32, 256)
			for v := range views {
				for {
					if err := v.CopyTo(buf); err != nil {
						assert.ErrorIs(t, err, ErrClosed)
						break
					}
					for _, x := range buf {
						if x != buf[0] {
							assert.Equal(t, buf[0], x, "a torn step")
							break
						}
					}
				}
			}
		})
	}
	for i := range 50 {
		v := alloc(t, s, "x", 256)
		fill(t, v, float32(i))
		views <- v
		runtime.Gosched()
		require.NoError(t, s.Reset(nil))
	}
	close(views)
	wg.Wait()
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := newForward(t, 64<<10)
	size, slots := s.Size(), uint64(0)
	step := func() {
		mark, err := s.Mark()
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			v, err := s.Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(4, 64))
			if err == nil {
				v, err = v.Split(1, 8)
			}
			if err == nil {
				_, err = v.Transpose(0, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := mark.Release(nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 { // the tables of names grow to their size
		step()
	}
	slots = core.ReadCounters().Slots
	require.Zero(t, testing.AllocsPerRun(50, step))
	require.Equal(t, size, s.Size())
	require.Zero(t, s.Overflow().Count)
	require.Equal(t, slots, core.ReadCounters().Slots)
}

func TestPoisonedSlab(t *testing.T) {
	defer func(was bool) { memoryDebug = was }(memoryDebug)
	memoryDebug = true
	s := newForward(t, 1024)
	fill(t, alloc(t, s, "x", 8), 1)
	require.NoError(t, s.Reset(nil))
	require.True(t, math.IsNaN(first(t, alloc(t, s, "x", 8))))
}

func BenchmarkForwardAlloc(b *testing.B) {
	s := newForward(b, 128<<10)
	b.ReportAllocs()
	for b.Loop() {
		if s.Used() > 64<<10 {
			_ = s.Reset(nil)
		}
		if _, err := s.Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(4, 64)); err != nil {
			b.Fatal(err)
		}
	}
}

// Tensors that did not fit end once, whoever ends them and in whatever order: by hand, by a mark that is released behind
// the scope's end, by the scope.
func TestOverflowEndsInEveryOrder(t *testing.T) {
	before := Stats()
	big := func(s *ForwardScope) View {
		v, err := s.Alloc("big", tensor.Dense(tensor.F32), tensor.ShapeOf(2048))
		require.NoError(t, err)
		return v
	}
	mark := func(s *ForwardScope) Mark {
		m, err := s.Mark()
		require.NoError(t, err)
		return m
	}
	scope := func() *ForwardScope {
		s, err := NewForwardScope("scope", 4096)
		require.NoError(t, err)
		return s
	}
	s := scope()
	big(s)
	m := mark(s)
	require.NoError(t, s.Close())
	require.ErrorIs(t, m.Release(nil), ErrClosed)
	require.ErrorIs(t, s.Reset(nil), ErrClosed)
	require.ErrorIs(t, s.Close(), ErrClosed)

	s = scope()
	big(s)
	a := mark(s)
	big(s)
	b := mark(s)
	require.NoError(t, s.Storage().Close())
	for range 2 {
		require.ErrorIs(t, a.Release(nil), ErrClosed)
		require.ErrorIs(t, b.Release(nil), ErrClosed)
	}
	require.ErrorIs(t, s.Close(), ErrClosed)

	s = scope()
	require.NoError(t, big(s).Storage().Close())
	m = mark(s)
	require.NoError(t, big(s).Storage().Close())
	require.NoError(t, m.Release(nil))
	require.NoError(t, s.Reset(nil))
	require.NoError(t, s.Close())
	require.Equal(t, before, Stats())
}
