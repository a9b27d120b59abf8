package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// gemma: embeddings are scaled, and the head is the embedding table. Norm weights in files of all Gemma models hold the
// +1 already. Gemma Team 2024.
var _ = add(Family{
	Name: "gemma", Rope: tensor.RopeNeoX, Activation: tensor.GLUGELUTanh, ScaledEmbedding: true,
	Tensors: slices.Concat(outer, attention, feedForward),
	Keys:    slices.Concat(rotaryBase(10_000, "Gemma Team 2024"), noExperts, activations("gelu_pytorch_tanh", "gelu_tanh", "gelu")),
})

// gemma2: every other layer sees a window, and scores and logits have a softcap. The 27B model scales scores by width
// per head, which is not its head's. Gemma Team 2024 (Gemma 2).
var _ = add(Family{
	Name: "gemma2", Rope: tensor.RopeNeoX, Activation: tensor.GLUGELUTanh, ScaledEmbedding: true,
	Tensors: slices.Concat(outer, attention, feedForward, postNorms),
	Keys: slices.Concat(Facts{
		{Name: "attn_logit_softcapping", Effect: Read, Default: 50.0, Reason: "softcap of attention scores; 0: none", Source: "Gemma Team 2024 (Gemma 2)"},
		{Name: "final_logit_softcapping", Effect: Read, Default: 30.0, Reason: "softcap of logits; 0: none", Source: "Gemma Team 2024 (Gemma 2)"},
	}, rotaryBase(10_000, "Gemma Team 2024 (Gemma 2)"), localBase, perHeadScale(46), noExperts, activations("gelu_pytorch_tanh", "gelu_tanh")),
	Kept:      Kept{Window: 4096, Period: 2},
	AttnScale: scaledByWidth(46),
})

// gemma3: of six layers the first five see a window and rotate with a base of their own, unscaled; the
// sixth sees everything. Most files state neither the six nor that base. Gemma Team 2025.
var _ = add(Family{
	Name: "gemma3", Rope: tensor.RopeNeoX, Activation: tensor.GLUGELUTanh, ScaledEmbedding: true, PlainWindows: true,
	Tensors: slices.Concat(outer, attention, qkNorms, feedForward, postNorms),
	Keys: slices.Concat(Facts{
		{Name: "rope.freq_base", Aliases: []string{"rope.global.freq_base"}, Effect: Read, Default: 1e6, Reason: "rotary base in layers with full attention",
			Source: "Gemma Team 2025; the other name: " + ollama},
		{Name: "rope.freq_base_swa", Aliases: []string{"rope.local.freq_base"}, Effect: Read, Default: 10_000.0, Reason: "rotary base in layers with a sliding window",
			Source: "Gemma Team 2025; the other name: " + ollama},
	}, perHeadScale(62), noExperts, activations("gelu_pytorch_tanh", "gelu_tanh")),
	Kept:      Kept{Period: 6},
	AttnScale: scaledByWidth(62),
})

// scaledByWidth is the scale of scores of families whose model of so many layers, the 27B one, takes the width per head
// instead of the head's.
func scaledByWidth(layers int) func(*Model, *Layer) float64 {
	return func(m *Model, l *Layer) float64 {
		if len(m.Layers) == layers {
			return 1 / math.Sqrt(float64(m.Width)/float64(l.Heads))
		}
		return 1 / math.Sqrt(float64(l.KeyDim))
	}
}

func perHeadScale(layers int) Facts {
	return Facts{{Name: "attention.scale", Effect: Read, Default: fmt.Sprintf("1 / √attention.key_length; with %d layers 1 / √(%s)", layers, ofWidth),
		Reason: "scale of the product of query and key", Source: converter + "; the default: Gemma Team 2024, 2025"}}
}
