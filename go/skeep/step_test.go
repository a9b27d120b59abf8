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
