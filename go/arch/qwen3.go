package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// qwen3 is Qwen 3 without experts: Llama's form with norms of queries and keys.
var qwen3 = family{
	rope:    tensor.RopeNeoX,
	tensors: slices.Concat(outer, attention, qkNorms, feedForward),
	keys: slices.Concat(Facts{
		{Name: "rope.freq_base", Effect: Read, Default: 10_000.0, Reason: "rotary base", Source: transformers + " (Qwen3Config)"},
	}, noExperts, activations("silu", "swish"), common),
	facts: func(m *Model, _ *reader) { m.everyLayer(func(l *Layer, _ int) { l.QKNorm = true }) },
}
