package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// glm4 is GLM 4 (0414) without experts: norms before and behind, gate and up are one weight, and a part of each head
// rotates. Files with another rotation for images hold queries and keys in another order, and say so by sections.
var _ = add(Family{
	Name: "glm4", Rope: tensor.RopeNormal,
	Tensors: slices.Concat(outer, attention, biases(true, tensor.AttnQ, tensor.AttnK, tensor.AttnV), fusedFeedForward, postNorms),
	Keys: slices.Concat(rotaryBase(10_000, transformers+" (Glm4Config)"), Facts{
		{Name: "rope.dimension_sections", Effect: Refused, Reason: "queries and keys in another order are not supported", Source: converter},
	}, noExperts, activations("silu", "swish")),
})
