package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// exaone4 is EXAONE 4: norms stand behind attention and feed-forward. Where three of four layers see a window, only those
// rotate. LG AI Research 2025.
var _ = add(Family{
	Name: "exaone4", Rope: tensor.RopeNeoX,
	Tensors: slices.Concat(outer, without(attention, tensor.AttnNorm), qkNorms, without(feedForward, tensor.FFNNorm), postNorms),
	Keys:    slices.Concat(rotaryBase(10_000, transformers+" (Exaone4Config)"), localBase, noExperts, activations("silu", "swish")),
	Kept:    Kept{Period: 4},
	Unrotated: func(m *Model, l *Layer, _ int) bool {
		return l.Window == 0 && slices.ContainsFunc(m.Layers, func(l Layer) bool { return l.Window > 0 })
	},
})
