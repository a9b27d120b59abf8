package model

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/quant"
)

// TestLargeModelStaysInItsPages maps a random model of 1.1 B parameters and runs it: memory beyond the file's pages, the
// copies in feed order, the cache and the slab is less than 20 MB, and no operand is copied.
func TestLargeModelStaysInItsPages(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("writes and reads 667 MB; run without -short and -race")
	}
	path := filepath.Join(t.TempDir(), "large.gguf")
	shape, err := quant.ShapeFor(1.1e9)
	require.NoError(t, err)
	_, err = quant.Synth(context.Background(), path, quant.SynthOptions{Shape: shape, Type: "q4_k_m"})
	require.NoError(t, err)
	file, err := os.Stat(path)
	require.NoError(t, err)
	for _, form := range []string{"stored", "feed"} {
		t.Run(form, func(t *testing.T) { staysInItsPages(t, path, file.Size(), form) })
	}
}

func staysInItsPages(t *testing.T, path string, size int64, form string) {
	m, err := Open(context.Background(), path, Options{Overrides: in(form)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	s := session(t, m)
	prompt := make([]int32, 64)
	for i := range prompt {
		prompt[i] = int32(300 + 7*i)
	}
	began := time.Now()
	_, err = s.Append(context.Background(), prompt...)
	require.NoError(t, err)
	prefill := time.Since(began)
	began = time.Now()
	const tokens = 8
	for i := range int32(tokens) {
		_, err = s.Append(context.Background(), 1000+i)
		require.NoError(t, err)
	}
	decode := time.Since(began)
	memory, err := s.Memory()
	require.NoError(t, err)
	beyond := memory.Heap + memory.OffHeap - memory.KV - memory.Slab - m.Forms().Feed.Bytes
	t.Logf("load %v, prefill %.0f tokens/s, decode %.1f tokens/s, %.2f GB/s; beyond pages, cache and slab: %.1f MB", m.LoadTime(),
		float64(len(prompt))/prefill.Seconds(), tokens/decode.Seconds(), float64(m.TokenBytes())*tokens/decode.Seconds()/1e9, float64(beyond)/1e6)
	require.Less(t, beyond, int64(20e6))
	require.GreaterOrEqual(t, memory.Mapped, size-1<<20)
	require.Less(t, memory.Mapped, size+1<<20)
	require.Zero(t, s.Copies())
}
