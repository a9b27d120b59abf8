package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// qwen2 is Qwen 1.5, 2 and 2.5 without experts: Llama's form with biases.
var qwen2 = family{
	rope:    tensor.RopeNeoX,
	tensors: slices.Concat(outer, attention, biases(false, tensor.AttnQ, tensor.AttnK, tensor.AttnV), feedForward),
	keys: slices.Concat(Facts{
		{Name: "rope.freq_base", Effect: Read, Default: 10_000.0, Reason: "rotary base", Source: transformers + " (Qwen2Config)"},
	}, noExperts, activations("silu", "swish"), common),
}
