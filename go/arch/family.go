package arch

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/skeep-project/skeep/go/tensor"
)

// Family is what is fixed about an architecture: facts that its files do not state. Layers are those of a decoder: a norm,
// attention, perhaps another norm, a residual sum; the same with a feed-forward part. Which of the norms, biases and
// fused weights there are, is said by Tensors.
type Family struct {
	Name       string          // general.architecture
	Rope       tensor.RopeForm // which elements of a head rotate as a pair
	Activation tensor.GLUForm
	Tensors    []Row
	// Keys is what files of this family are asked beside what every family reads, with defaults of its own, and what is
	// refused in them. Reading embedding_scale, residual_scale, logit_scale, rope.freq_base_swa or expert_count takes a
	// row here.
	Keys Facts
	Kept Kept // what its layers keep, where files do not say

	ScaledEmbedding bool // embeddings are multiplied by √width, unless embedding_scale is read
	PlainWindows    bool // layers with a window rotate without the scaling of long contexts
	// Unrotated says which layers do not rotate queries and keys; nil: all rotate.
	Unrotated func(m *Model, l *Layer, layer int) bool
	// AttnScale is the factor of query times key if attention.scale is absent; nil: 1 / √KeyDim.
	AttnScale func(m *Model, l *Layer) float64
}

// Row is a tensor of a family, of the model or of each layer.
type Row struct {
	Role     tensor.Role
	Kind     tensor.Kind
	Optional bool
	Dims     func(*Model, *Layer) []int // its shape, rows first; nil when the layer has no such tensor
}

// families holds the registered architectures by name. Each of this package's stands in a file of its own, which
// registers it.
var families = struct {
	sync.RWMutex
	byName map[string]*Family
}{byName: map[string]*Family{}}

// Register adds a family, whose files Describe then knows. It is an error if the name is empty or taken, or a row has no
// shape. f is copied, its slices are not. It is safe for concurrent use.
func Register(f Family) error {
	if f.Name == "" {
		return fmt.Errorf("arch: register: %w: the family has no name", ErrInvalid)
	}
	if slices.ContainsFunc(f.Tensors, func(r Row) bool { return r.Dims == nil || r.Role == tensor.NoRole }) {
		return fmt.Errorf("arch: register %.64q: %w: a tensor without role or shape", f.Name, ErrInvalid)
	}
	families.Lock()
	defer families.Unlock()
	if _, taken := families.byName[f.Name]; taken {
		return fmt.Errorf("arch: register %.64q: %w: there is a family of that name", f.Name, ErrInvalid)
	}
	f.Keys = slices.Concat(f.Keys, f.Kept.facts(), common)
	families.byName[f.Name] = &f
	return nil
}

// add registers a family of this package.
func add(f Family) Family {
	if err := Register(f); err != nil {
		panic(err) // found by every test
	}
	return f
}

// FamilyOf returns the family of an architecture, for example to derive another from it: change the name and what
// differs, and Register it. ok is false if there is none.
func FamilyOf(architecture string) (f Family, ok bool) {
	families.RLock()
	defer families.RUnlock()
	if p := families.byName[architecture]; p != nil {
		return *p, true
	}
	return Family{}, false
}

// Architectures lists the values of general.architecture that Describe supports, sorted.
func Architectures() []string {
	families.RLock()
	defer families.RUnlock()
	return slices.Sorted(maps.Keys(families.byName))
}

// The tensors that families share. q is the width of all query heads, and so on.
var (
	outer = []Row{
		{Role: tensor.TokenEmbed, Dims: func(m *Model, _ *Layer) []int { return []int{m.Vocab, m.Width} }},
		{Role: tensor.OutputNorm, Dims: modelWidth},
		{Role: tensor.Output, Optional: true, Dims: func(m *Model, _ *Layer) []int { return []int{m.Vocab, m.Width} }},
		{Role: tensor.RopeFreqs, Optional: true, Dims: rotatedPairs},
	}
	ropeFactors = []Row{
		{Role: tensor.RopeFactorsLong, Optional: true, Dims: rotatedPairs},
		{Role: tensor.RopeFactorsShort, Optional: true, Dims: rotatedPairs},
	}
	attention = []Row{
		{Role: tensor.AttnNorm, Dims: attends(modelWidth)},
		{Role: tensor.AttnQ, Dims: attends(func(m *Model, l *Layer) []int { return []int{l.Heads * l.KeyDim, m.Width} })},
		{Role: tensor.AttnK, Dims: attends(func(m *Model, l *Layer) []int { return []int{l.KVHeads * l.KeyDim, m.Width} })},
		{Role: tensor.AttnV, Dims: attends(func(m *Model, l *Layer) []int { return []int{l.KVHeads * l.ValueDim, m.Width} })},
		{Role: tensor.AttnOutput, Dims: attends(func(m *Model, l *Layer) []int { return []int{m.Width, l.Heads * l.ValueDim} })},
	}
	fusedAttention = []Row{
		{Role: tensor.AttnNorm, Dims: attends(modelWidth)},
		{Role: tensor.AttnQKV, Dims: attends(func(m *Model, l *Layer) []int {
			return []int{l.Heads*l.KeyDim + l.KVHeads*(l.KeyDim+l.ValueDim), m.Width}
		})},
		{Role: tensor.AttnOutput, Dims: attends(func(m *Model, l *Layer) []int { return []int{m.Width, l.Heads * l.ValueDim} })},
	}
	qkNorms = []Row{
		{Role: tensor.AttnQNorm, Dims: attends(func(_ *Model, l *Layer) []int { return []int{l.KeyDim} })},
		{Role: tensor.AttnKNorm, Dims: attends(func(_ *Model, l *Layer) []int { return []int{l.KeyDim} })},
	}
	wideQKNorms = []Row{ // of all heads together
		{Role: tensor.AttnQNorm, Dims: attends(func(_ *Model, l *Layer) []int { return []int{l.Heads * l.KeyDim} })},
		{Role: tensor.AttnKNorm, Dims: attends(func(_ *Model, l *Layer) []int { return []int{l.KVHeads * l.KeyDim} })},
	}
	postNorms = []Row{
		{Role: tensor.PostAttnNorm, Dims: attends(modelWidth)},
		{Role: tensor.PostFFNNorm, Dims: feeds(modelWidth)},
	}
	feedForward = []Row{
		{Role: tensor.FFNNorm, Dims: feeds(modelWidth)},
		{Role: tensor.FFNGate, Dims: dense(func(m *Model, l *Layer) []int { return []int{l.FF, m.Width} })},
		{Role: tensor.FFNUp, Dims: dense(func(m *Model, l *Layer) []int { return []int{l.FF, m.Width} })},
		{Role: tensor.FFNDown, Dims: dense(func(m *Model, l *Layer) []int { return []int{m.Width, l.FF} })},
	}
	fusedFeedForward = []Row{ // gate and up are one weight
		{Role: tensor.FFNNorm, Dims: feeds(modelWidth)},
		{Role: tensor.FFNUp, Dims: dense(func(m *Model, l *Layer) []int { return []int{2 * l.FF, m.Width} })},
		{Role: tensor.FFNDown, Dims: dense(func(m *Model, l *Layer) []int { return []int{m.Width, l.FF} })},
	}
	experts = []Row{
		{Role: tensor.RouterGate, Dims: mixed(func(m *Model, _ *Layer) []int { return []int{m.Experts, m.Width} })},
		{Role: tensor.GateExperts, Dims: mixed(func(m *Model, l *Layer) []int { return []int{m.Experts, l.FF, m.Width} })},
		{Role: tensor.UpExperts, Dims: mixed(func(m *Model, l *Layer) []int { return []int{m.Experts, l.FF, m.Width} })},
		{Role: tensor.DownExperts, Dims: mixed(func(m *Model, l *Layer) []int { return []int{m.Experts, m.Width, l.FF} })},
	}
)

// biases are the biases of projections in attention: as long as the weight has rows.
func biases(optional bool, roles ...tensor.Role) []Row {
	rows := make([]Row, len(roles))
	for i, role := range roles {
		weight := attention[slices.IndexFunc(attention, func(r Row) bool { return r.Role == role })].Dims
		rows[i] = Row{Role: role, Kind: tensor.Bias, Optional: optional, Dims: func(m *Model, l *Layer) []int {
			return weight(m, l)[:min(len(weight(m, l)), 1)]
		}}
	}
	return rows
}

// without is rows without those of some roles.
func without(rows []Row, roles ...tensor.Role) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return slices.Contains(roles, r.Role) })
}

func rotatedPairs(m *Model, _ *Layer) []int { return []int{m.rotated() / 2} }

func modelWidth(m *Model, _ *Layer) []int { return []int{m.Width} }

// rotated is the number of elements that rotate, the same in all layers that do.
func (m *Model) rotated() int {
	for _, l := range m.Layers {
		if l.Rope.Dims > 0 {
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
