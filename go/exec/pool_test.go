package exec

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// requirePool looks for an error that names the pool, and no storage of an operand.
func requirePool(t *testing.T, err, is error) {
	t.Helper()
	require.ErrorIs(t, err, is)
	require.ErrorContains(t, err, "pool")
	var at *skeep.Error
	require.ErrorAs(t, err, &at)
	require.Empty(t, at.Tensor)
	if is == skeep.ErrClosed {
		require.Equal(t, "pool", at.Storage)
	}
}

// Whatever needs a pool, with one that is closed and with none.
func TestUseWithoutAnOpenPool(t *testing.T) {
	x, w := f32s(t, "x", 2, 64), q4(t, "w", 32, 64)
	closed, err := skeep.NewPool(2)
	require.NoError(t, err)
	before, err := NewEager(Options{Pool: closed})
	require.NoError(t, err)
	defer before.Close()
	require.NoError(t, before.Begin())
	require.Equal(t, 2, closed.Threads())
	closed.Close()
	closed.Close()
	require.Zero(t, closed.Threads())
	before.MatMulT(x, w)
	requirePool(t, before.End(), skeep.ErrClosed)
	requirePool(t, before.Begin(), skeep.ErrClosed)

	scope := skeep.NewModelScope("m")
	defer scope.Close()
	for _, p := range []*skeep.Pool{nil, new(skeep.Pool), closed} {
		is := skeep.ErrClosed
		if p == nil {
			is = skeep.ErrArgument
		}
		c := skeep.Copier{Pool: p}
		for name, call := range map[string]func() error{
			"materialize": func() error {
				_, err := skeep.Materialize(p, "m", w, tensor.Dense(tensor.F32), scope)
				return err
			},
			"retain":  func() error { _, err := skeep.Retain(p, "m", w, scope); return err },
			"prepack": func() error { _, err := skeep.Prepack(p, "m", w, tensor.Panels(8), scope); return err },
			"encode":  func() error { _, err := c.Encode("m", x, tensor.FormatOf(tensor.Q8_0), scope); return err },
			"new":     func() error { _, err := NewEager(Options{Pool: p}); return err },
		} {
			t.Run(name, func(t *testing.T) { requirePool(t, call(), is) })
		}
	}
	require.Empty(t, scope.Storages())
	var zero Eager // has no pool
	requirePool(t, zero.Begin(), skeep.ErrArgument)
}

// Steps and copies of other goroutines while the pool is closed: each result is whole, or refused.
func TestPoolCloseBesideSteps(t *testing.T) {
	x, w := f32s(t, "x", 4, 256), f32s(t, "w", 512, 256)
	want := product(t, x, w)
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	for i := range rounds {
		pool, err := skeep.NewPool(3)
		require.NoError(t, err)
		var users sync.WaitGroup
		users.Go(func() {
			for {
				if _, err := skeep.Materialize(pool, "m", w, tensor.Dense(tensor.F16), skeep.Ambient()); err != nil {
					requirePool(t, err, skeep.ErrClosed)
					return
				}
			}
		})
		users.Go(func() {
			e, err := NewEager(Options{Pool: pool, SlabBytes: 1 << 16, Exact: true})
			if errors.Is(err, skeep.ErrClosed) {
				return
			}
			defer e.Close()
			for err == nil {
				if err = e.Begin(); err != nil {
					break
				}
				y := e.MatMulT(x, w)
				if err = e.End(); err == nil {
					if got := floats(t, y); got[0] != float32(want[0]) && abs(float64(got[0])-want[0]) > 1e-3 {
						t.Errorf("%g, want %g", got[0], want[0])
					}
				}
			}
			requirePool(t, err, skeep.ErrClosed)
		})
		time.Sleep(time.Duration(i%10) * 20 * time.Microsecond)
		users.Go(pool.Close)
		pool.Close()
		users.Wait()
	}
}

func abs(x float64) float64 { return max(x, -x) }

func TestOptionsOutOfRange(t *testing.T) {
	pool, err := skeep.NewPool(1)
	require.NoError(t, err)
	defer pool.Close()
	for name, o := range map[string]Options{
		"Roots": {Pool: pool, Roots: -1}, "Roots is 32769": {Pool: pool, Roots: 32769},
		"SlabBytes": {Pool: pool, SlabBytes: -1}, "HeapLimit": {Pool: pool, HeapLimit: -1},
	} {
		_, err := NewEager(o)
		require.ErrorIs(t, err, skeep.ErrArgument)
		require.ErrorContains(t, err, name)
	}
	for _, threads := range []int{-1, 1025, 1 << 30} {
		_, err := skeep.NewPool(threads)
		require.ErrorIs(t, err, skeep.ErrArgument)
		require.ErrorContains(t, err, "threads, want 0 to 1024")
	}
}
