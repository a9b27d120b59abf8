package resolver

import (
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/stretchr/testify/require"
)

func TestGainsHaveAColumnForEveryProcessorFamilyOfTheCore(t *testing.T) {
	require.ElementsMatch(t, core.MachineFamilies(), families[:])
}
