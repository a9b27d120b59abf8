package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// granite is Granite 3 without experts: Llama's form with factors of embeddings, scores, residual sums and logits. IBM 2024.
var _ = add(Family{
	Name: "granite", Rope: tensor.RopeNormal,
	Tensors: slices.Concat(outer, attention, biases(true, tensor.AttnQ, tensor.AttnK, tensor.AttnV, tensor.AttnOutput), feedForward),
	Keys: slices.Concat(rotaryBase(10_000, transformers+" (GraniteConfig)"), Facts{
		{Name: "embedding_scale", Effect: Read, Default: 1.0, Reason: "embeddings are multiplied by this factor; 0 means 1", Source: converter},
		{Name: "residual_scale", Effect: Read, Default: 1.0, Reason: "what attention and feed-forward add is multiplied by this factor; 0 means 1", Source: converter},
		{Name: "logit_scale", Effect: Read, Default: 1.0, Reason: "logits are divided by this number; 0 means 1", Source: converter},
	}, permuted, noExperts, activations("silu", "swish")),
})
