package skeep

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

func TestCopyIntoNoScope(t *testing.T) {
	pool := newPool(t)
	q := weight(t, tensor.FormatOf(tensor.Q4_0), 16, 64)
	x, err := Materialize(pool, "x", q, tensor.Dense(tensor.F32), Ambient())
	require.NoError(t, err)
	for _, p := range []*Pool{pool, nil} {
		for name, call := range map[string]func() (View, error){
			"materialize": func() (View, error) { return Materialize(p, "y", q, tensor.Dense(tensor.F32), nil) },
			"retain":      func() (View, error) { return Retain(p, "y", q, nil) },
			"prepack":     func() (View, error) { return Prepack(p, "y", q, tensor.Panels(8), nil) },
			"encode":      func() (View, error) { return Copier{Pool: p}.Encode("y", x, q.Format(), nil) },
		} {
			_, err := call()
			require.ErrorIs(t, err, ErrArgument, name)
			require.ErrorContains(t, err, "the scope is nil", name)
		}
	}
}

// Each of several who close one storage and wait learns of the same end, and one of them that it was the first.
func TestEveryCloseContextWaits(t *testing.T) {
	s, err := Allocate("shared", 64)
	require.NoError(t, err)
	pin, st := core.Pin(s.r.handle)
	require.Equal(t, core.OK, st.Code)
	const callers = 4
	answers := make(chan error, callers)
	for range callers {
		go func() { answers <- s.CloseContext(context.Background()) }()
	}
	for !s.Closed() {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.CloseContext(ctx), ErrBusy)
	require.Empty(t, answers)
	require.Equal(t, core.OK, core.Unpin(pin).Code)
	first := 0
	for range callers {
		if err := <-answers; err == nil {
			first++
		} else {
			require.ErrorIs(t, err, ErrClosed)
		}
	}
	require.Equal(t, 1, first)
	require.ErrorIs(t, s.CloseContext(ctx), ErrClosed) // gone: what ctx says does not matter
}
