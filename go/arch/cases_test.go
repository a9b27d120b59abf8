package arch

import (
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// The pairs that rotary embedding turns belong to the architecture: files of llama hold Q and K permuted for
// neighbors, the others as they were trained. The operation itself is tested in package exec.
// Case H07.
func TestEachArchitectureHasItsRotaryForm(t *testing.T) {
	neighbors := []string{"glm4", "granite", "llama", "smollm3"}
	for _, name := range Architectures() {
		f, ok := FamilyOf(name)
		require.True(t, ok)
		require.Equal(t, slices.Contains(neighbors, name), f.Rope == tensor.RopeNormal, name)
	}
}
