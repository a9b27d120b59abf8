package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// phi3 is Phi 3, 3.5 and 4 without experts: queries, keys and values are one weight, so are gate and up, and sequences
// beyond the first training's context rotate by other factors. Abdin et al. 2024.
var _ = add(Family{
	Name: "phi3", Rope: tensor.RopeNeoX,
	Tensors: slices.Concat(outer, ropeFactors, fusedAttention, fusedFeedForward),
	Keys:    slices.Concat(rotaryBase(10_000, transformers+" (Phi3Config)"), noExperts, activations("silu", "swish")),
})
