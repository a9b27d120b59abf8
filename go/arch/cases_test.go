package arch

import (
	"testing"

	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// The pairs that rotary embedding turns belong to the architecture: files of llama hold Q and K permuted for
// neighbors, the others as they were trained. The operation itself is tested in package exec.
// Case H07.
func TestEachArchitectureHasItsRotaryForm(t *testing.T) {
	want := map[string]tensor.RopeForm{"llama": tensor.RopeNormal, "qwen2": tensor.RopeNeoX, "qwen3": tensor.RopeNeoX, "gemma3": tensor.RopeNeoX}
	for name, form := range want { // tests/families compares all of them
		f, ok := FamilyOf(name)
		require.True(t, ok)
		require.Equal(t, form, f.Rope, name)
	}
}
