package arch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The pairs that rotary embedding turns belong to the architecture: files of llama hold Q and K permuted for
// neighbours, the others as they were trained. The operation itself is tested in package exec.
func TestH07_rotaryFormOfEachArchitecture(t *testing.T) {
	want := map[string]RopeForm{"llama": RopeNormal, "qwen2": RopeNeoX, "qwen3": RopeNeoX, "gemma3": RopeNeoX}
	require.Len(t, families, len(want))
	for name, form := range want {
		require.Equal(t, form, families[name].rope, name)
	}
}
