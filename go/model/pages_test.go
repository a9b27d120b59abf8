package model

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
)

// Case E03. File pages are asked for in windows, never more than the budget leaves beside the private memory; how many and how long that
// took is said. A context ends it.
func TestPrewarmIsBounded(t *testing.T) {
	path := embeddedIn(t, "q4_0")
	asked := func(budget int64) string {
		p := resolver.Profile{Name: "test", Map: true, Threshold: 1, KV: tensor.EncF16, Budget: budget}
		m, err := Open(t.Context(), path, Options{Profile: &p, Load: LoadPrewarm, Overrides: in("stored")})
		require.NoError(t, err)
		defer m.Close()
		require.Len(t, m.Notes(), 1)
		return strings.TrimPrefix(m.Notes()[0], "prewarm: asked for ")
	}
	whole := asked(0)
	require.Regexp(t, `^\d.* MiB of file pages, in 0\.\d+ s$`, whole)
	plan, err := Plan(path, Options{Overrides: in("stored"), Load: LoadPrewarm}, nil)
	require.NoError(t, err)
	r := plan.Resolution
	require.True(t, strings.HasPrefix(whole, resolver.Size(r.In(tensor.Mapped))), whole)
	const left = 100 << 10
	private := r.In(tensor.OffHeap) + r.In(tensor.Heap)
	part := asked(private + left)
	require.True(t, strings.HasPrefix(part, "100 KiB of file pages of "+resolver.Size(r.In(tensor.Mapped))+"; more would not stay in memory, in 0."), part)
	require.True(t, strings.HasPrefix(asked(1), "0 B of file pages of "))

	m, err := Open(t.Context(), path, Options{})
	require.NoError(t, err)
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.keepPages(ctx, LoadPrewarm, 0), context.Canceled)
}
