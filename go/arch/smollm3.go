package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// smollm3 is SmolLM 3: Llama's form, but every fourth layer does not rotate. Bakouch et al. 2025.
var _ = add(Family{
	Name: "smollm3", Rope: tensor.RopeNormal,
	Tensors:   slices.Concat(outer, attention, biases(true, tensor.AttnQ, tensor.AttnK, tensor.AttnV, tensor.AttnOutput), feedForward),
	Keys:      slices.Concat(rotaryBase(10_000, transformers+" (SmolLM3Config)"), permuted, noExperts, activations("silu", "swish")),
	Unrotated: func(_ *Model, _ *Layer, layer int) bool { return layer%4 == 3 },
})
