package ended

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestErr(t *testing.T) {
	why := errors.New("the window was closed")
	for name, c := range map[string]struct {
		cause error
		text  string
	}{
		"no cause":               {nil, "context canceled"},
		"a cause":                {why, "context canceled: the window was closed"},
		"a cause that says both": {fmt.Errorf("%w: %w", why, context.Canceled), "the window was closed: context canceled"},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		require.NoError(t, Err(ctx), name)
		cancel(c.cause)
		err := Err(ctx)
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, context.Cause(ctx), name)
		require.EqualError(t, err, c.text, name)
	}
	ctx, cancel := context.WithDeadlineCause(context.Background(), time.Unix(0, 0), why)
	defer cancel()
	require.ErrorIs(t, Err(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, Err(ctx), why)
}
