package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// llama is Llama 1 to 3, Mistral, Mixtral and what follows their form.
var llama = family{
	rope:    tensor.RopeNormal,
	tensors: slices.Concat(outer, attention, biases(true, tensor.AttnQ, tensor.AttnK, tensor.AttnV, tensor.AttnOutput), feedForward, experts),
	keys: slices.Concat(Facts{
		{Name: "rope.freq_base", Effect: Read, Default: 10_000.0, Reason: "rotary base", Source: "Touvron et al. 2023"},
		{Name: "expert_count", Effect: Read, Default: 0.0, Reason: "number of experts per layer; 0: none", Source: spec},
		{Name: "expert_used_count", Effect: Read, Default: 0.0, Reason: "number of experts per token", Source: spec},
		{Name: "tensor_data_layout", Effect: Refused, Usual: []any{"Meta AI original pth"}, Reason: "only weights of queries and keys with adjacent rotated pairs are supported", Source: spec},
	}, activations("silu", "swish"), common),
	facts: func(m *Model, r *reader) {
		m.Experts, _ = r.count("expert_count", 0, maxExperts)
		m.ExpertsUsed, _ = r.count("expert_used_count", 0, maxExperts)
		if m.Experts > 0 && (m.ExpertsUsed < 1 || m.ExpertsUsed > m.Experts) {
			r.fail(ErrInvalid, r.prefix+"expert_used_count", "%d of %d experts", m.ExpertsUsed, m.Experts)
		}
	},
}
