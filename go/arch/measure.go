package arch

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/skeep-project/skeep/go/tensor"
)

// measure is what Measure works with.
type measure struct {
	*reader
	Kept
	Sizes
	shapes map[string]tensor.Shape // of the tensors, by name
}

func newMeasure(h Header) *measure {
	r := &reader{h: h, keys: sizeKeys}
	name := r.text("general.architecture", true)
	k, known := keptBy(name)
	r.prefix = name + "."
	return &measure{reader: r, Kept: k, Sizes: Sizes{Geometry: Geometry{Arch: name}, Bound: !known}}
}

func (m *measure) assume(key, value, reason string) {
	m.Assumptions = append(m.Assumptions, Assumption{Key: m.prefix + key, Value: value, Reason: reason})
}

func (m *measure) unknown(term, key string) {
	m.Unknown = append(m.Unknown, Unknown{Term: term, Key: m.prefix + key})
}

// rows is how many rows a weight has; 0 if it is not in the file.
func (m *measure) rows(role tensor.Role, layer int) int {
	s := m.shapes[tensor.IDOf(role, layer).String()]
	if s.Rank != 2 || s.Dims[0] > maxVocab {
		return 0
	}
	return int(max(0, s.Dims[0]))
}

func (m *measure) model() {
	m.shapes = map[string]tensor.Shape{}
	layers := 0
	for _, t := range m.h.Tensors() {
		m.shapes[t.Name] = t.Shape
		if id, ok := tensor.ParseID(t.Name); ok && id.Role.PerLayer() {
			layers = max(layers, int(id.Layer)+1)
		}
	}
	if n, given := m.count("block_count", 1, maxLayers); given {
		layers = n
	} else if layers = min(layers, maxLayers); layers > 0 {
		m.assume("block_count", strconv.Itoa(layers), "the file has tensors of so many layers")
	} else {
		m.fail(ErrMissing, m.prefix+"block_count", "absent, and no tensor belongs to a layer")
	}
	var given bool
	if m.Context, given = m.count("context_length", 1, maxContext); !given {
		m.Context = 4096
		m.assume("context_length", "4096", "the metadata do not state the context of the training")
	}
	m.width()
	if m.err != nil {
		return
	}
	m.Layers = make([]Layer, layers)
	m.feedForward()
	m.attention()
	m.state()
}

// width reads what does not belong to a layer.
func (m *measure) width() {
	var given bool
	if m.Width, given = m.count("embedding_length", 1, maxWidth); !given {
		if s := m.shapes[tensor.IDOf(tensor.TokenEmbed, -1).String()]; s.Rank == 2 && s.Dims[1] > 0 && s.Dims[1] <= maxWidth {
			m.Width = int(s.Dims[1])
			m.assume("embedding_length", strconv.Itoa(m.Width), "rows of token_embd.weight are so long")
		} else {
			m.unknown("slab", "embedding_length")
		}
	}
	if m.err == nil {
		if m.Vocab = m.vocab(); errors.Is(m.err, ErrMissing) {
			m.err = nil
			m.unknown("logits", "vocab_size")
		}
	}
}

// feedForward reads the widths of feed-forward parts. Layers with a dense part beside others with experts count as if
// it were experts.
func (m *measure) feedForward() {
	ff := m.perLayer("feed_forward_length", len(m.Layers), 0, maxFF)
	var given bool
	m.Experts, _ = m.count("expert_count", 0, maxExperts)
	if m.ExpertsUsed, given = m.count("expert_used_count", 0, maxExperts); !given && m.Experts > 0 {
		m.ExpertsUsed = m.Experts
		m.assume("expert_used_count", strconv.Itoa(m.Experts), "the metadata do not state it, and more are not there")
	}
	one, ofExperts := m.count("expert_feed_forward_length", 1, maxFF)
	shared, given := m.count("expert_shared_feed_forward_length", 0, maxFF)
	if n, _ := m.count("expert_shared_count", 0, maxExperts); !given {
		shared = n * one
	}
	leading, _ := m.count("leading_dense_block_count", 0, maxLayers)
	missing := false
	for i := range m.Layers {
		l := &m.Layers[i]
		switch {
		case ff != nil:
			l.FF = ff[i]
		case !ofExperts || m.Experts == 0:
			l.FF = m.rows(tensor.FFNUp, i)
			missing = missing || l.FF == 0
		}
		if used := m.ExpertsUsed; m.Experts > 0 && used > 0 && ofExperts {
			all := used*one + shared
			if i < leading {
				all = max(all, l.FF)
			}
			l.FF = (all + used - 1) / used
		}
	}
	if missing && !m.Kept.State {
		m.unknown("slab", "feed_forward_length")
	}
}

// attention reads which layers attend, with which heads and how far.
func (m *measure) attention() {
	layers := len(m.Layers)
	heads := m.perLayer("attention.head_count", layers, 0, maxHeads)
	kvHeads := m.perLayer("attention.head_count_kv", layers, 0, maxHeads)
	if m.err != nil {
		return
	}
	if heads == nil {
		m.fromTensors(kvHeads)
	} else {
		if kvHeads == nil {
			kvHeads = heads
			m.assume("attention.head_count_kv", "(attention.head_count)", "each query head has its own keys and values")
		}
		keyDim, valueDim := m.headWidths(heads)
		for i := range m.Layers {
			if l := &m.Layers[i]; heads[i] > 0 && kvHeads[i] > 0 {
				l.Heads, l.KVHeads, l.KeyDim, l.ValueDim = heads[i], kvHeads[i], keyDim, valueDim
			}
		}
	}
	for i := range m.Layers {
		l := &m.Layers[i]
		has := func(role tensor.Role) bool { return m.shapes[tensor.IDOf(role, i).String()].Rank > 0 }
		l.QKNorm, l.PostNorms = has(tensor.AttnQNorm), has(tensor.PostAttnNorm) || has(tensor.PostFFNNorm) // their results take memory, too
	}
	m.recurrent()
	m.windows()
	m.latent()
	m.shared()
}

// fromTensors takes what heads there are from the rows of the projections.
func (m *measure) fromTensors(kvHeads []int) {
	found := false
	for i := range m.Layers {
		k, v := m.rows(tensor.AttnK, i), m.rows(tensor.AttnV, i)
		if k == 0 {
			continue
		}
		if found = true; v == 0 {
			v = k
		}
		n := 1
		if kvHeads != nil && kvHeads[i] > 0 && k%kvHeads[i] == 0 && v%kvHeads[i] == 0 {
			n = kvHeads[i]
		}
		l := &m.Layers[i]
		l.KVHeads, l.KeyDim, l.ValueDim = n, k/n, v/n
		l.Heads = max(1, (m.rows(tensor.AttnQ, i)+l.KeyDim-1)/l.KeyDim)
	}
	if found {
		m.assume("attention.head_count", "(rows of attn_k.weight and attn_v.weight)", "the metadata do not state it")
	} else if !m.Kept.State {
		m.unknown("kv", "attention.head_count")
	}
}

// headWidths are those of a head's keys and values.
func (m *measure) headWidths(heads []int) (keyDim, valueDim int) {
	keyDim, given := m.count("attention.key_length", 1, maxHeadDim)
	if !given {
		for _, n := range heads {
			if n > 0 {
				keyDim = min((m.Width+n-1)/n, maxHeadDim)
				break
			}
		}
		if keyDim > 0 {
			m.assume("attention.key_length", strconv.Itoa(keyDim), ofWidth)
		} else if !m.Kept.State {
			m.unknown("kv", "attention.key_length")
		}
	}
	if valueDim, given = m.count("attention.value_length", 1, maxHeadDim); !given {
		if valueDim = keyDim; keyDim > 0 {
			m.assume("attention.value_length", strconv.Itoa(keyDim), "as long as attention.key_length")
		}
	}
	return keyDim, valueDim
}

// recurrent takes attention from the layers that have a recurrence in its place.
func (m *measure) recurrent() {
	const each, interval = "attention.recurrent_layers", "full_attention_interval"
	recurrent := make([]bool, len(m.Layers))
	if key, v := m.find(each); v != nil {
		recurrent = m.bools(key, v)
	} else if n, given := m.count(interval, 1, maxLayers); given || m.Kept.Interval > 0 {
		if !given {
			n = m.Kept.Interval
			m.assume(interval, strconv.Itoa(n), "usual for "+m.Arch)
		}
		for i := range recurrent {
			recurrent[i] = n > 0 && (i+1)%n != 0
		}
	}
	for i := range m.Layers {
		if recurrent[i] && !m.Bound {
			m.Layers[i] = Layer{FF: m.Layers[i].FF}
		}
	}
}

// windows reads which layers see no more than a window, and what their heads are like.
func (m *measure) windows() {
	const name, pattern = "attention.sliding_window", "attention.sliding_window_pattern"
	window, given := m.count(name, 0, maxContext)
	if !given && m.Kept.Window > 0 {
		window = m.Kept.Window
		m.assume(name, strconv.Itoa(window), "usual for "+m.Arch)
	}
	if window == 0 || m.err != nil {
		return
	}
	local := m.localLayers(len(m.Layers), m.Kept.Period)
	if _, v := m.find(pattern); v == nil && m.Kept.Period > 0 && !m.Bound {
		m.assume(pattern, strconv.Itoa(m.Kept.Period), "usual for "+m.Arch+": every n-th layer sees the whole context")
	}
	keyDim, keyGiven := m.count("attention.key_length_swa", 1, maxHeadDim)
	valueDim, valueGiven := m.count("attention.value_length_swa", 1, maxHeadDim)
	for i := range m.Layers {
		l := &m.Layers[i]
		switch {
		case l.Heads == 0:
		case m.Bound:
			l.KeyDim, l.ValueDim = max(l.KeyDim, keyDim), max(l.ValueDim, valueDim)
		case local[i]:
			l.Window = window
			if keyGiven {
				l.KeyDim = keyDim
			}
			if valueGiven {
				l.ValueDim = valueDim
			}
		}
	}
}

// latent reads whether one compressed row takes the place of all heads. DeepSeek-AI 2024, section 2.1. Files that state
// no widths of single heads were made for attention over whole heads.
func (m *measure) latent() {
	rank, given := m.count("attention.kv_lora_rank", 1, maxWidth)
	if !given || m.Bound {
		return
	}
	if _, v := m.find("attention.key_length_mla"); v == nil {
		m.assume("attention.key_length_mla", "(absent)", "the file was made for keys and values of whole heads, which are kept instead of latent ones")
		return
	}
	rotated, given := m.count("rope.dimension_count", 1, maxHeadDim)
	if !given {
		m.unknown("kv", "rope.dimension_count")
	}
	for i := range m.Layers {
		if l := &m.Layers[i]; l.Heads > 0 {
			l.KVHeads, l.KeyDim, l.ValueDim, l.Latent = 1, rank+rotated, rank, true
		}
	}
}

// shared reads which last layers have no caches.
func (m *measure) shared() {
	const name = "attention.shared_kv_layers"
	n, given := m.count(name, 0, len(m.Layers)-1)
	if !given && m.Kept.Own > 0 && len(m.Layers) > m.Kept.Own {
		n = len(m.Layers) - m.Kept.Own
		m.assume(name, strconv.Itoa(n), "usual for "+m.Arch)
	}
	for i := len(m.Layers) - n; i < len(m.Layers) && !m.Bound; i++ {
		m.Layers[i].Shared = m.Layers[i].Heads > 0
	}
}

// state reads what recurrent layers keep: the inputs that a convolution still needs, and the state of a recurrence.
// Gu & Dao 2023 (Mamba), Yang et al. 2024 (Gated DeltaNet), Liquid AI 2025 (LFM2).
func (m *measure) state() {
	var state [2]tensor.Shape
	short, isShort := m.count("shortconv.l_cache", 1, maxHeadDim)
	inner, isSSM := m.count("ssm.inner_size", 1, maxFF)
	switch {
	case isShort:
		state[0] = tensor.ShapeOf(int64(short-1), int64(m.Width))
	case isSSM:
		kernel, kernelGiven := m.count("ssm.conv_kernel", 1, maxHeadDim)
		size, sizeGiven := m.count("ssm.state_size", 1, maxFF)
		groups, _ := m.count("ssm.group_count", 0, maxHeads)
		if !kernelGiven {
			m.unknown("state", "ssm.conv_kernel")
		}
		if !sizeGiven {
			m.unknown("state", "ssm.state_size")
		}
		state[0] = tensor.ShapeOf(int64(max(kernel-1, 0)), int64(inner)+2*int64(groups)*int64(size))
		state[1] = tensor.ShapeOf(int64(size), int64(inner))
	}
	needed := false
	for i := range m.Layers {
		l := &m.Layers[i]
		alone := l.Heads == 0 && !(m.Single && l.FF > 0)
		if m.Kept.State && (alone || m.Beside) || m.Bound {
			l.State, needed = state, needed || alone || m.Beside
		}
	}
	if needed && !isShort && !isSSM {
		m.unknown("state", "ssm.inner_size")
	}
}

// bools is an array of one truth per layer; numbers count as true unless they are 0.
func (m *measure) bools(key string, v Value) []bool {
	all := make([]bool, len(m.Layers))
	a, ok := v.Array()
	if !ok || a.Len() != len(all) {
		m.fail(ErrInvalid, key, "is no array of %d values, one per layer", len(all))
		return all
	}
	for i := range all {
		if all[i], ok = a.At(i).Bool(); !ok {
			n := m.integer(fmt.Sprintf("%s[%d]", key, i), a.At(i), 0, math.MaxInt32)
			all[i] = n != 0
		}
	}
	return all
}

// localLayers reads which layers see no more than the window: all but every n-th (as usual if the file does not
// say, 0: all), or those of a list.
func (r *reader) localLayers(layers, usual int) []bool {
	const name = "attention.sliding_window_pattern"
	local := make([]bool, layers)
	key, v := r.find(name)
	if v != nil {
		if a, ok := v.Array(); ok {
			if a.Len() != layers {
				r.fail(ErrInvalid, key, "array of %d values for %d layers", a.Len(), layers)
				return local
			}
			for i := range local {
				if local[i], ok = a.At(i).Bool(); !ok {
					r.fail(ErrInvalid, fmt.Sprintf("%s[%d]", key, i), "is of kind %s, not bool", a.Elem())
				}
			}
			return local
		}
	}
	period, given := r.count(name, 1, maxLayers)
	if !given {
		period = usual
	}
	for i := range local {
		local[i] = period == 0 || i%period != period-1
	}
	return local
}
