package model

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
)

// TestStepsOfEveryFamilyFitTheirSlab: what arch.LayerBytes computes from a header is enough for a whole chunk with the
// logits of one row, for fused weights, scales and norms in other places too; and a plan counts the caches that a session has.
func TestStepsOfEveryFamilyFitTheirSlab(t *testing.T) {
	files, err := filepath.Glob("../../tests/families/*.gguf")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, exact := range []bool{true, false} {
			m, err := OpenBytes(context.Background(), file, b, Options{Threads: 1, Context: 64, Chunk: 32, Exact: exact})
			require.NoError(t, err)
			s := session(t, m)
			ids := make([]int32, 32)
			for i := range ids {
				ids[i] = int32(3 + i)
			}
			_, err = s.Append(context.Background(), ids...)
			require.NoError(t, err)
			require.Zero(t, s.eager.Slab().Overflow, file)
			memory, err := s.Memory()
			require.NoError(t, err)
			kv, err := m.Arch().KVBytes(arch.KV{Context: 64, Chunk: 32, Sequences: 1}, m.kvFormat)
			require.NoError(t, err)
			require.Equal(t, kv, memory.KV, file)
			require.NoError(t, m.Close())
		}
	}
}
