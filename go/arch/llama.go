package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// llama is Llama 1 to 3, Mistral, Mixtral and what follows their form.
var _ = add(Family{
	Name: "llama", Rope: tensor.RopeNormal,
	Tensors: slices.Concat(outer, attention, biases(true, tensor.AttnQ, tensor.AttnK, tensor.AttnV, tensor.AttnOutput), feedForward, experts),
	Keys: slices.Concat(rotaryBase(10_000, "Touvron et al. 2023"), Facts{
		{Name: "expert_count", Effect: Read, Default: 0.0, Reason: "number of experts per layer; 0: none", Source: spec},
		{Name: "expert_used_count", Effect: Read, Default: 0.0, Reason: "number of experts per token", Source: spec},
	}, permuted, activations("silu", "swish")),
})
