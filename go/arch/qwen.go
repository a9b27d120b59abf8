package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// qwen2 is Qwen 1.5, 2 and 2.5 without experts: Llama's form with biases.
var _ = add(Family{
	Name: "qwen2", Rope: tensor.RopeNeoX,
	Tensors: slices.Concat(outer, attention, biases(false, tensor.AttnQ, tensor.AttnK, tensor.AttnV), feedForward),
	Keys:    slices.Concat(rotaryBase(10_000, transformers+" (Qwen2Config)"), noExperts, activations("silu", "swish")),
})

// qwen3 is Qwen 3 without experts: Llama's form with norms of queries and keys.
var _ = add(Family{
	Name: "qwen3", Rope: tensor.RopeNeoX,
	Tensors: slices.Concat(outer, attention, qkNorms, feedForward),
	Keys:    slices.Concat(rotaryBase(10_000, transformers+" (Qwen3Config)"), noExperts, activations("silu", "swish")),
})
