package skeep

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tensor"
)

func TestStep(t *testing.T) {
	pool := newPool(t)
	for _, n := range []int{-1, 1 << 20} {
		_, err := NewStep(n)
		require.ErrorIs(t, err, ErrArgument)
	}
	step, err := NewStep(2)
	require.NoError(t, err)
	c := Copier{Pool: pool, Step: step, Layer: -1}
	x := weight(t, tensor.FormatOf(tensor.Q4_0), 16, 64)
	copied := func() (View, error) { return c.Materialize("y", x, tensor.Dense(tensor.F32), Ambient()) }
	_, err = copied()
	require.ErrorIs(t, err, ErrArgument, "outside of begin and end")

	require.NoError(t, step.Begin())
	require.ErrorIs(t, step.Begin(), ErrArgument, "begun twice")
	y, err := copied()
	require.NoError(t, err)
	require.ErrorIs(t, y.Storage().root().TryClose(), ErrBusy, "the step pins what it wrote")
	_, err = copied()
	require.ErrorIs(t, err, ErrMemory, "a third storage")
	require.ErrorIs(t, step.End(), ErrMemory, "the first error")
	require.NoError(t, y.Storage().root().TryClose())

	require.NoError(t, step.Begin())
	y, err = copied()
	require.NoError(t, err)
	require.NoError(t, y.Storage().CloseIn(step))
	require.NoError(t, step.End())

	step.Close()
	step.Close()
	for name, closed := range map[string]*Step{"closed": step, "zero": {}} {
		require.ErrorIs(t, closed.Begin(), ErrArgument, name)
		require.ErrorIs(t, closed.End(), ErrArgument, name)
	}
	var none *Step
	none.Close()
}

// A closed step is no step: what is given one does nothing and says so.
func TestClosedStepsAreRefused(t *testing.T) {
	pool, err := NewPool(1)
	require.NoError(t, err)
	defer pool.Close()
	made, err := NewStep(0)
	require.NoError(t, err)
	made.Close()
	made.Close()
	for _, step := range []*Step{new(Step), made} {
		step.Close()
		x, err := Ambient().Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(2, 3))
		require.NoError(t, err)
		_, err = Copier{Pool: pool, Step: step}.Materialize("y", x, tensor.Dense(tensor.F16), Ambient())
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, "the step is closed")
		scope, err := NewForwardScope("slab", 4096)
		require.NoError(t, err)
		m, err := scope.Mark()
		require.NoError(t, err)
		require.ErrorIs(t, m.Release(step), ErrArgument)
		require.ErrorIs(t, scope.Reset(step), ErrArgument)
		require.ErrorIs(t, scope.Storage().CloseIn(step), ErrArgument)
		require.NoError(t, m.Release(nil))
		require.NoError(t, scope.Reset(nil))
		require.NoError(t, scope.Close())
		require.ErrorIs(t, step.Begin(), ErrArgument)
		require.ErrorIs(t, step.End(), ErrArgument)
	}
}

// Every scope refuses alignments that are none.
func TestAlignmentsOfSlabsAreChecked(t *testing.T) {
	for _, a := range []int64{3, -1, -64, 96, 4 << 20} {
		_, err := NewForwardScope("slab", 4096, WithSpec(tensor.AllocationSpec{Domain: tensor.OffHeap, Alignment: a}))
		require.ErrorIs(t, err, ErrArgument, "alignment %d", a)
	}
}
