package arch

import (
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// family is what is fixed about an architecture: facts that its files do not state.
type family struct {
	rope       tensor.RopeForm
	activation tensor.GLUForm
	tensors    []row
	keys       Facts                 // what it reads, with defaults of its own, and what it refuses
	facts      func(*Model, *reader) // what remains, once the hyperparameters are read
}

// row is a tensor of a family, of the model or of each layer. dims gives its shape, rows first; none
// when the layer has no such tensor.
type row struct {
	role     tensor.Role
	kind     tensor.Kind
	optional bool
	dims     func(*Model, *Layer) []int
}

// families is THE table of architectures, each of which stands in a file of its own.
var families = map[string]family{"llama": llama, "qwen2": qwen2, "qwen3": qwen3, "gemma3": gemma3}

func (m *Model) everyLayer(set func(l *Layer, i int)) {
	for i := range m.Layers {
		set(&m.Layers[i], i)
	}
}

// The tensors that families share. q is the width of all query heads, and so on.
var (
	outer = []row{
		{role: tensor.TokenEmbed, dims: func(m *Model, _ *Layer) []int { return []int{m.Vocab, m.Width} }},
		{role: tensor.OutputNorm, dims: modelWidth},
		{role: tensor.Output, optional: true, dims: func(m *Model, _ *Layer) []int { return []int{m.Vocab, m.Width} }},
		{role: tensor.RopeFreqs, optional: true, dims: func(m *Model, _ *Layer) []int { return []int{m.rotated() / 2} }},
	}
	attention = []row{
		{role: tensor.AttnNorm, dims: attends(modelWidth)},
		{role: tensor.AttnQ, dims: attends(func(m *Model, l *Layer) []int { return []int{l.Heads * l.KeyDim, m.Width} })},
		{role: tensor.AttnK, dims: attends(func(m *Model, l *Layer) []int { return []int{l.KVHeads * l.KeyDim, m.Width} })},
		{role: tensor.AttnV, dims: attends(func(m *Model, l *Layer) []int { return []int{l.KVHeads * l.ValueDim, m.Width} })},
		{role: tensor.AttnOutput, dims: attends(func(m *Model, l *Layer) []int { return []int{m.Width, l.Heads * l.ValueDim} })},
	}
	qkNorms = []row{
		{role: tensor.AttnQNorm, dims: attends(func(_ *Model, l *Layer) []int { return []int{l.KeyDim} })},
		{role: tensor.AttnKNorm, dims: attends(func(_ *Model, l *Layer) []int { return []int{l.KeyDim} })},
	}
	postNorms = []row{
		{role: tensor.PostAttnNorm, dims: attends(modelWidth)},
		{role: tensor.PostFFNNorm, dims: feeds(modelWidth)},
	}
	feedForward = []row{
		{role: tensor.FFNNorm, dims: feeds(modelWidth)},
		{role: tensor.FFNGate, dims: dense(func(m *Model, l *Layer) []int { return []int{l.FF, m.Width} })},
		{role: tensor.FFNUp, dims: dense(func(m *Model, l *Layer) []int { return []int{l.FF, m.Width} })},
		{role: tensor.FFNDown, dims: dense(func(m *Model, l *Layer) []int { return []int{m.Width, l.FF} })},
	}
	experts = []row{
		{role: tensor.RouterGate, dims: mixed(func(m *Model, _ *Layer) []int { return []int{m.Experts, m.Width} })},
		{role: tensor.GateExperts, dims: mixed(func(m *Model, l *Layer) []int { return []int{m.Experts, l.FF, m.Width} })},
		{role: tensor.UpExperts, dims: mixed(func(m *Model, l *Layer) []int { return []int{m.Experts, l.FF, m.Width} })},
		{role: tensor.DownExperts, dims: mixed(func(m *Model, l *Layer) []int { return []int{m.Experts, m.Width, l.FF} })},
	}
)

// biases are the biases of projections in attention: as long as the weight has rows.
func biases(optional bool, roles ...tensor.Role) []row {
	rows := make([]row, len(roles))
	for i, role := range roles {
		weight := attention[slices.IndexFunc(attention, func(r row) bool { return r.role == role })].dims
		rows[i] = row{role: role, kind: tensor.Bias, optional: optional, dims: func(m *Model, l *Layer) []int {
			return weight(m, l)[:min(len(weight(m, l)), 1)]
		}}
	}
	return rows
}

func modelWidth(m *Model, _ *Layer) []int { return []int{m.Width} }

// rotated is the number of elements that rotate, the same in all layers that do.
func (m *Model) rotated() int {
	for _, l := range m.Layers {
		if l.Heads > 0 {
			return int(l.Rope.Dims)
		}
	}
	return 0
}

// only gives the shape where the condition holds.
func only(cond func(*Model, *Layer) bool, dims func(*Model, *Layer) []int) func(*Model, *Layer) []int {
	return func(m *Model, l *Layer) []int {
		if !cond(m, l) {
			return nil
		}
		return dims(m, l)
	}
}

func attends(dims func(*Model, *Layer) []int) func(*Model, *Layer) []int {
	return only(func(_ *Model, l *Layer) bool { return l.Heads > 0 }, dims)
}

func feeds(dims func(*Model, *Layer) []int) func(*Model, *Layer) []int {
	return only(func(_ *Model, l *Layer) bool { return l.FF > 0 }, dims)
}

func dense(dims func(*Model, *Layer) []int) func(*Model, *Layer) []int {
	return only(func(m *Model, l *Layer) bool { return l.FF > 0 && m.Experts == 0 }, dims)
}

func mixed(dims func(*Model, *Layer) []int) func(*Model, *Layer) []int {
	return only(func(m *Model, l *Layer) bool { return l.FF > 0 && m.Experts > 0 }, dims)
}
