package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// olmo2 is OLMo 2 and 3: norms stand behind attention and feed-forward, not before, and queries and keys are normed over
// all heads together. In OLMo 3 three of four layers see a window. OLMo Team 2025.
var _ = add(Family{
	Name: "olmo2", Rope: tensor.RopeNeoX, PlainWindows: true,
	Tensors: slices.Concat(outer, without(attention, tensor.AttnNorm), wideQKNorms, without(feedForward, tensor.FFNNorm), postNorms),
	Keys:    slices.Concat(rotaryBase(10_000, transformers+" (Olmo2Config)"), localBase, noExperts, activations("silu", "swish")),
	Kept:    Kept{Period: 4},
})
