package arch

import (
	"fmt"
	"math"

	"github.com/skeep-project/skeep/go/tensor"
)

// The largest numbers that a model may state. They stand well above any real model and keep every
// product of three of them within an int.
const (
	maxLayers  = 4096
	maxContext = math.MaxInt32 // positions are I32
	maxWidth   = 1 << 20
	maxFF      = 1 << 22
	maxHeads   = 1 << 14
	maxHeadDim = 1 << 14
	maxVocab   = 1 << 24
	maxExperts = 1 << 14
)

// reader reads metadata and keeps the first error; later reads return zeros.
type reader struct {
	h      Header
	prefix string // "llama."
	err    error
}

// fail keeps the first error. key is whole, with its prefix.
func (r *reader) fail(kind error, key, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{File: r.h.Name(), Key: key, Reason: fmt.Sprintf(format, args...), Err: kind}
	}
}

// value looks for a key; nil when it is absent, which is an error when required.
func (r *reader) value(key string, required bool) Value {
	v, ok := r.h.Value(key)
	if !ok && required {
		r.fail(ErrMissing, key, "required and absent")
	}
	if !ok || r.err != nil {
		return nil
	}
	return v
}

// text reads a key that holds a string. The key is whole.
func (r *reader) text(key string, required bool) string {
	v := r.value(key, required)
	if v == nil {
		return ""
	}
	s, ok := v.Text()
	if !ok {
		r.fail(ErrInvalid, key, "is of kind %s, not string", v.Kind())
	}
	return s
}

// integer checks that a value is an integer within bounds.
func (r *reader) integer(key string, v Value, least, most int) int {
	n, ok := v.Int()
	switch {
	case !ok && v.Kind() == Uint64:
		r.fail(ErrInvalid, key, "more than 2⁶³, must be %d to %d", least, most)
	case !ok:
		r.fail(ErrInvalid, key, "is of kind %s, not an integer", v.Kind())
	case n < int64(least) || n > int64(most):
		r.fail(ErrInvalid, key, "%d, must be %d to %d", n, least, most)
	default:
		return int(n)
	}
	return 0
}

// count reads an integer of the family's; absent, it is otherwise, or an error when that is negative.
func (r *reader) count(key string, otherwise, least, most int) int {
	key = r.prefix + key
	v := r.value(key, otherwise < 0)
	if v == nil {
		return otherwise
	}
	return r.integer(key, v, least, most)
}

// perLayer reads an integer that is one for all layers, or an array of one each. Only in an array may it
// be zero.
func (r *reader) perLayer(key string, layers int, otherwise []int, most int) []int {
	key = r.prefix + key
	v := r.value(key, otherwise == nil)
	if v == nil {
		return otherwise
	}
	all := make([]int, layers)
	a, ok := v.Array()
	if !ok {
		n := r.integer(key, v, 1, most)
		for i := range all {
			all[i] = n
		}
		return all
	}
	if a.Len() != layers {
		r.fail(ErrInvalid, key, "array of %d values for %d layers", a.Len(), layers)
		return all
	}
	for i := range all {
		all[i] = r.integer(fmt.Sprintf("%s[%d]", key, i), a.At(i), 0, most)
	}
	return all
}

// float reads a number of the family's within bounds; absent, it is otherwise.
func (r *reader) float(key string, required bool, otherwise, least, most float64) float64 {
	key = r.prefix + key
	v := r.value(key, required)
	if v == nil {
		return otherwise
	}
	x, ok := v.Float()
	switch {
	case !ok:
		r.fail(ErrInvalid, key, "is of kind %s, not a number", v.Kind())
	case !(x >= least && x <= most): // also NaN
		r.fail(ErrInvalid, key, "%g, must be %g to %g", x, least, most)
	default:
		return x
	}
	return 0
}

// model reads the hyperparameters that all families share.
func (r *reader) model(m *Model, f family) {
	layers := r.count("block_count", -1, 1, maxLayers)
	m.Context = r.count("context_length", -1, 1, maxContext)
	m.Width = r.count("embedding_length", -1, 1, maxWidth)
	m.Eps = float32(r.float("attention.layer_norm_rms_epsilon", true, 0, 1e-12, 1))
	heads := r.perLayer("attention.head_count", layers, nil, maxHeads)
	kvHeads := r.perLayer("attention.head_count_kv", layers, heads, maxHeads)
	ff := r.perLayer("feed_forward_length", layers, nil, maxFF)
	m.Experts = r.count("expert_count", 0, 0, maxExperts)
	m.ExpertsUsed = r.count("expert_used_count", 0, 0, maxExperts)
	if m.Experts > 0 && (m.ExpertsUsed < 1 || m.ExpertsUsed > m.Experts) {
		r.fail(ErrInvalid, r.prefix+"expert_used_count", "%d of %d experts", m.ExpertsUsed, m.Experts)
	}
	window := r.count("attention.sliding_window", 0, 0, maxContext)
	softcap := float32(r.float("attn_logit_softcapping", false, 0, 0, 1e6))
	keyDim, valueDim, rope := r.heads(m, f, heads)
	m.Vocab = r.vocab()
	if r.err != nil {
		return
	}
	scale := float32(r.float("attention.scale", false, 1/math.Sqrt(float64(keyDim)), 1e-6, 1e6))
	m.Layers = make([]Layer, layers)
	for i := range m.Layers {
		l := Layer{FF: ff[i]}
		if heads[i] > 0 {
			if kvHeads[i] == 0 || heads[i]%kvHeads[i] != 0 {
				r.fail(ErrInvalid, r.prefix+"attention.head_count_kv", "%d key-value heads for %d heads in layer %d", kvHeads[i], heads[i], i)
				return
			}
			l.Heads, l.KVHeads, l.KeyDim, l.ValueDim = heads[i], kvHeads[i], keyDim, valueDim
			l.Window, l.Rope, l.AttnScale, l.AttnSoftcap = window, rope, scale, softcap
		}
		m.Layers[i] = l
	}
}

// heads reads what one head is like. Without a stated width it is the model's, divided by the heads of
// the first layer with attention.
func (r *reader) heads(m *Model, f family, heads []int) (keyDim, valueDim int, rope Rope) {
	n := 0
	for _, h := range heads {
		if n == 0 {
			n = h
		}
	}
	if r.err != nil {
		return
	}
	if n == 0 {
		r.fail(ErrInvalid, r.prefix+"attention.head_count", "0 in every layer: nothing attends")
		return
	}
	keyDim = r.count("attention.key_length", 0, 1, maxHeadDim)
	if keyDim == 0 && r.err == nil {
		if keyDim = m.Width / n; m.Width%n != 0 || keyDim > maxHeadDim {
			r.fail(ErrInvalid, r.prefix+"attention.head_count", "%d heads of a model of width %d, and no attention.key_length", n, m.Width)
		}
	}
	valueDim = r.count("attention.value_length", keyDim, 1, maxHeadDim)
	rope = r.rope(m, f, keyDim)
	return
}

// rope reads the rotary embedding and its scaling.
func (r *reader) rope(m *Model, f family, keyDim int) Rope {
	p := Rope{
		Form:       f.rope,
		Dims:       r.count("rope.dimension_count", keyDim, 2, maxHeadDim),
		Base:       float32(r.float("rope.freq_base", false, 10_000, 1, 1e12)),
		Scale:      1,
		AttnFactor: 1,
	}
	if r.err == nil && (p.Dims%2 != 0 || p.Dims > keyDim) {
		r.fail(ErrInvalid, r.prefix+"rope.dimension_count", "%d of a head of %d: must be even and no more", p.Dims, keyDim)
	}
	kind := "linear"
	if _, ok := r.h.Value(r.prefix + "rope.scaling.type"); ok {
		kind = r.text(r.prefix+"rope.scaling.type", true)
	}
	// scale_linear is the name of the factor in files of before scaling types.
	factor := r.float("rope.scaling.factor", false, 0, 0, 1e6)
	if factor == 0 {
		factor = r.float("rope.scale_linear", false, 1, 1e-6, 1e6)
	}
	attn := r.float("rope.scaling.attn_factor", false, 1, 1e-3, 1e3)
	switch kind {
	case "none":
	case "linear":
		p.Scale, p.AttnFactor = float32(1/factor), float32(attn)
	case "yarn":
		if r.float("rope.scaling.yarn_log_multiplier", false, 0, -1e3, 1e3) != 0 {
			r.fail(ErrUnsupported, r.prefix+"rope.scaling.yarn_log_multiplier", "no family here uses it")
		}
		attn *= r.float("rope.scaling.yarn_attn_factor", false, 1, 1e-3, 1e3)
		p.Scale = float32(1 / factor)
		p.ExtFactor = float32(r.float("rope.scaling.yarn_ext_factor", false, 1, 0, 1))
		p.BetaFast = float32(r.float("rope.scaling.yarn_beta_fast", false, 32, 1e-3, 1e6))
		p.BetaSlow = float32(r.float("rope.scaling.yarn_beta_slow", false, 1, 1e-3, 1e6))
		p.OriginalContext = r.count("rope.scaling.original_context_length", m.Context, 1, maxContext)
		if p.ExtFactor != 0 { // Peng et al. 2023, section 3.4: attention sharpens with the logarithm of the scaling
			attn *= 1 + 0.1*math.Log(factor)
		}
		p.AttnFactor = float32(attn)
	default:
		r.fail(ErrUnsupported, r.prefix+"rope.scaling.type", "scaling %.32q; known are none, linear and yarn", kind)
	}
	return p
}

// vocab is the number of tokens: those listed, else stated, else the rows of the embedding table.
func (r *reader) vocab() int {
	const tokens = "tokenizer.ggml.tokens"
	if v := r.value(tokens, false); v != nil {
		a, ok := v.Array()
		switch {
		case !ok || a.Elem() != String:
			r.fail(ErrInvalid, tokens, "is no array of strings")
		case a.Len() < 1 || a.Len() > maxVocab:
			r.fail(ErrInvalid, tokens, "%d tokens, must be 1 to %d", a.Len(), maxVocab)
		default:
			return a.Len()
		}
		return 0
	}
	if n := r.count("vocab_size", 0, 1, maxVocab); n > 0 || r.err != nil {
		return n
	}
	name := tensor.IDOf(tensor.TokenEmbed, -1).String()
	for _, t := range r.h.Tensors() {
		if t.Name == name && t.Shape.Rank == 2 && t.Shape.Dims[0] >= 1 && t.Shape.Dims[0] <= maxVocab {
			return int(t.Shape.Dims[0])
		}
	}
	r.fail(ErrMissing, r.prefix+"vocab_size", "absent, and neither %s nor %s tells the number of tokens", tokens, name)
	return 0
}
