package skeep

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// weight is a random [planes, out, in] tensor in Borrowed bytes.
func weight(t *testing.T, f tensor.Format, dims ...int64) View {
	t.Helper()
	bytes, err := f.Bytes(tensor.ShapeOf(dims...))
	require.NoError(t, err)
	s, err := Borrow("weights", randomBlocks(rand.New(rand.NewPCG(5, 6)), f, bytes))
	require.NoError(t, err)
	v, err := s.View("w", 0, f, tensor.ShapeOf(dims...))
	require.NoError(t, err)
	return v
}

// sameElements compares all elements of two views through Get.
func sameElements(t *testing.T, want, got View) {
	t.Helper()
	require.Equal(t, want.Shape(), got.Shape())
	n, err := want.Shape().Elements()
	require.NoError(t, err)
	var index [tensor.MaxRank]int64
	rank := int(want.Shape().Rank)
	for range n {
		a, err := want.Get(index[:rank]...)
		require.NoError(t, err)
		b, err := got.Get(index[:rank]...)
		require.NoError(t, err)
		require.True(t, same(a, b), "%v: %v, want %v", index[:rank], b, a)
		want.next(&index, rank-1)
	}
}

func TestMaterialize(t *testing.T) {
	pool := newPool(t)
	rec := trace.NewRecorder(10)
	m := NewModelScope("m", WithTrace(rec))
	defer m.Close()
	q := weight(t, tensor.FormatOf(tensor.Q4_0), 2, 11, 96)

	dense, err := Materialize(pool, "dense", q, tensor.Dense(tensor.F32), m)
	require.NoError(t, err)
	sameElements(t, q, dense)
	require.Equal(t, tensor.Dense(tensor.F32), dense.Format())
	require.Equal(t, trace.Total{Count: 1, Bytes: 2 * 11 * 96 * 4, Elapsed: rec.Total(trace.Materialize).Elapsed}, rec.Total(trace.Materialize))
	events, _ := rec.Events()
	last := events[len(events)-1]
	require.Equal(t, "dense", last.Tensor)
	require.Contains(t, last.Detail, "Q4_0")

	// What arithmetic refuses, a copy can.
	turned, err := q.Transpose(1, 2)
	require.NoError(t, err)
	_, err = turned.Narrow(2, 1, 2)
	require.NoError(t, err)
	_, err = q.Narrow(2, 5, 10)
	var le *tensor.LayoutError
	require.ErrorAs(t, err, &le)
	require.True(t, le.Materialize)
	requireError(t, err, le, "weights", "w")
	part, err := dense.Narrow(2, 5, 10)
	require.NoError(t, err)
	got, err := part.Get(1, 2, 3)
	require.NoError(t, err)
	want, err := q.Get(1, 2, 8)
	require.NoError(t, err)
	require.Equal(t, want, got)

	flat, err := Materialize(pool, "turned", turned, tensor.Dense(tensor.F32), m)
	require.NoError(t, err)
	sameElements(t, turned, flat)
	require.True(t, flat.Layout().Contiguous())

	// The same blocks, without their gaps.
	rows, err := q.Narrow(1, 3, 5)
	require.NoError(t, err)
	kept, err := Retain(pool, "rows", rows, m)
	require.NoError(t, err)
	require.Equal(t, q.Format(), kept.Format())
	require.True(t, kept.Layout().GapFree())
	sameElements(t, rows, kept)

	half, err := Materialize(pool, "half", dense, tensor.Dense(tensor.F16), Ambient())
	require.NoError(t, err)
	require.Equal(t, tensor.F16, half.Format().DType)
	back, err := Materialize(pool, "back", half, tensor.Dense(tensor.F32), Ambient())
	require.NoError(t, err)
	sameElements(t, half, back)
}

func TestRetainEscapesTheForwardScope(t *testing.T) {
	pool := newPool(t)
	s := newForward(t, 4096)
	v := alloc(t, s, "x", 3, 4)
	fill(t, v, 5)
	kept, err := Retain(pool, "kept", v, Ambient())
	require.NoError(t, err)
	require.NoError(t, s.Reset(nil))
	require.Equal(t, 5.0, first(t, kept))
	_, err = Retain(pool, "late", v, Ambient())
	requireError(t, err, ErrClosed, "step", "x")
}

func TestPrepackThereAndBack(t *testing.T) {
	pool := newPool(t)
	rec := trace.NewRecorder(100)
	m := NewModelScope("m", WithTrace(rec))
	defer m.Close()
	for _, e := range []tensor.Encoding{tensor.Q4_0, tensor.Q6_K} {
		w := weight(t, tensor.FormatOf(e), 2, 11, 3*256)
		for _, o := range []tensor.Order{{Family: tensor.InputBlockMajor}, tensor.Panels(4), tensor.Panels(8), tensor.Feed} {
			before := rec.Total(trace.Prepack)
			p, err := Prepack(pool, "packed", w, o, m)
			require.NoError(t, err)
			require.Equal(t, o, p.Layout().Order)
			sameElements(t, w, p)
			require.Equal(t, before.Bytes+w.Bytes(), rec.Total(trace.Prepack).Bytes)
			back, err := Prepack(pool, "back", p, tensor.Order{}, m)
			require.NoError(t, err)
			a, b := make([]byte, w.Bytes()), make([]byte, w.Bytes())
			_, err = w.Storage().ReadAt(a, 0)
			require.NoError(t, err)
			_, err = back.Storage().ReadAt(b, 0)
			require.NoError(t, err)
			require.Equal(t, a, b, "a bijection of the same bytes")
			require.NotEqual(t, w.Layout(), p.Layout())
		}
	}
}

func TestFailedCopiesLeaveNothing(t *testing.T) {
	pool := newPool(t)
	m := NewModelScope("m")
	defer m.Close()
	s := newForward(t, 4096)
	w := weight(t, tensor.FormatOf(tensor.Q4_0), 4, 96)
	w32 := weight(t, tensor.Dense(tensor.F32), 4, 96)
	closed := weight(t, tensor.FormatOf(tensor.Q4_0), 4, 96)
	require.NoError(t, closed.Storage().root().Close())
	before := settled(t)
	for _, into := range []Scope{m, s, Ambient()} {
		_, err := Materialize(pool, "y", closed, tensor.Dense(tensor.F32), into)
		requireError(t, err, ErrClosed, "weights", "w")
		_, err = Prepack(pool, "y", closed, tensor.Panels(4), into)
		requireError(t, err, ErrClosed, "weights", "w")
		_, err = Materialize(pool, "y", w32, tensor.FormatOf(tensor.Q4_0), into)
		requireError(t, err, ErrFormat, "weights", "w")
		_, err = Prepack(pool, "y", w32, tensor.Panels(4), into)
		require.Error(t, err)
		_, err = Materialize(pool, "y", View{}, tensor.Dense(tensor.F32), into)
		require.ErrorIs(t, err, ErrArgument)
		_, err = Prepack(pool, "y", View{}, tensor.Panels(4), into)
		require.ErrorIs(t, err, ErrArgument)
		turned, err := w.Transpose(0, 1)
		require.NoError(t, err)
		_, err = Materialize(pool, "y", turned, tensor.FormatOf(tensor.Q4_0), into)
		require.Error(t, err)
	}
	require.Equal(t, before, Stats())
	require.Empty(t, m.Storages())
	require.Zero(t, s.Used())
	alloc(t, s, "almost all", 1000)
	_, err := Materialize(pool, "y", closed, tensor.Dense(tensor.F32), s) // would overflow
	require.Error(t, err)
	require.Equal(t, before, Stats())
	require.NoError(t, s.Reset(nil))
}

func TestCopyWithinAStepAllocatesNothing(t *testing.T) {
	pool := newPool(t)
	s := newForward(t, 64<<10)
	w := weight(t, tensor.FormatOf(tensor.Q4_0), 4, 96)
	step := func() {
		if _, err := (Copier{Pool: pool, Layer: -1}).Materialize("y", w, tensor.Dense(tensor.F32), s); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(nil); err != nil {
			t.Fatal(err)
		}
	}
	step()
	step()
	require.Zero(t, testing.AllocsPerRun(20, step))
}

// Whole panels of rows have the same place in both orders, so a weight can be re-ordered in pieces of them.
func TestPrepackToInPieces(t *testing.T) {
	pool := newPool(t)
	f := tensor.FormatOf(tensor.Q4_K)
	v := weight(t, f, 37, 3*256)
	whole, err := Prepack(pool, "whole", v, tensor.Feed, Ambient())
	require.NoError(t, err)
	want, got := make([]byte, v.Bytes()), make([]byte, v.Bytes())
	_, err = whole.Storage().ReadAt(want, 0)
	require.NoError(t, err)
	c := Copier{Pool: pool, Trace: trace.NewRecorder(4), Layer: -1}
	for row := int64(0); row < 37; row += 32 {
		rows := min(32, 37-row)
		x, err := v.Narrow(0, row, rows)
		require.NoError(t, err)
		l, err := tensor.LayoutOf(f, tensor.ShapeOf(rows, 3*256), tensor.Feed)
		require.NoError(t, err)
		size := rows * v.Bytes() / 37
		s, err := Borrow("piece", got[row*v.Bytes()/37:][:size])
		require.NoError(t, err)
		y, err := s.ViewLayout("piece", 0, f, l)
		require.NoError(t, err)
		require.NoError(t, c.PrepackTo(x, y))
		require.NoError(t, s.Close())
	}
	require.Equal(t, want, got)
	require.EqualValues(t, 2, c.Trace.Total(trace.Prepack).Count)
	require.Equal(t, v.Bytes(), c.Trace.Total(trace.Prepack).Bytes)
	y, err := Ambient().Alloc("other", tensor.FormatOf(tensor.Q6_K), v.Shape())
	require.NoError(t, err)
	require.ErrorIs(t, c.PrepackTo(v, y), ErrFormat)
	y, err = Ambient().Alloc("other", f, tensor.ShapeOf(36, 3*256))
	require.NoError(t, err)
	require.ErrorIs(t, c.PrepackTo(v, y), ErrShape)
	require.ErrorIs(t, c.PrepackTo(View{}, y), ErrAbsent)
	require.ErrorIs(t, c.PrepackTo(v, View{}), ErrAbsent)
}
