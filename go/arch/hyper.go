package arch

import (
	"fmt"
	"math"
	"slices"

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

// reader reads metadata by the rows of a family's table and keeps the first error; later reads return zeros.
type reader struct {
	h      Header
	keys   Facts  // of the family
	prefix string // "llama."
	err    error
}

// fail keeps the first error. key is whole, with its prefix.
func (r *reader) fail(kind error, key, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{File: r.h.Name(), Key: key, Reason: fmt.Sprintf(format, args...), Err: kind}
	}
}

// find looks for a key of the family's under all its names: the whole name that the file has and its value, or nil
// when it is absent, which is an error when the row has no default.
func (r *reader) find(name string) (key string, v Value) {
	x, _ := r.keys.Find(name)
	key = r.prefix + name
	if !r.reads(name) {
		r.fail(ErrUnsupported, key, "is read, but is not in the table of facts")
	}
	for _, other := range append([]string{name}, x.Aliases...) {
		found, ok := r.h.Value(r.prefix + other)
		switch {
		case !ok:
		case v == nil:
			key, v = r.prefix+other, found
		case words(v) != words(found):
			r.fail(ErrInvalid, r.prefix+other, "%s, but %s is %s, and both are names of one key", words(found), key, words(v))
		}
	}
	if v == nil && x.Default == nil {
		r.fail(ErrMissing, key, "required, but absent")
	}
	if r.err != nil {
		return key, nil
	}
	return key, v
}

// absent is the number that an absent key stands for, 0 when it follows from other keys.
func (r *reader) absent(name string) float64 {
	x, _ := r.keys.Find(name)
	n, _ := x.Default.(float64)
	return n
}

// text reads a key that holds a string. The key is whole.
func (r *reader) text(key string, required bool) string {
	v, ok := r.h.Value(key)
	if !ok {
		if required {
			r.fail(ErrMissing, key, "required, but absent")
		}
		return ""
	}
	s, ok := v.Text()
	if !ok {
		r.fail(ErrInvalid, key, "is of kind %s, not string", v.Kind())
	}
	return s
}

// integer checks that a value is an integer within bounds.
func (r *reader) integer(key string, v Value, low, high int) int {
	n, ok := v.Int()
	switch {
	case !ok && v.Kind() == Uint64:
		r.fail(ErrInvalid, key, "larger than 2⁶³, want %d to %d", low, high)
	case !ok:
		r.fail(ErrInvalid, key, "is of kind %s, not an integer", v.Kind())
	case n < int64(low) || n > int64(high):
		r.fail(ErrInvalid, key, "%d, want %d to %d", n, low, high)
	default:
		return int(n)
	}
	return 0
}

// count reads an integer of the family's within bounds. given is false when the key is absent: n is its default then.
func (r *reader) count(name string, low, high int) (n int, given bool) {
	key, v := r.find(name)
	if v == nil {
		return int(r.absent(name)), false
	}
	return r.integer(key, v, low, high), true
}

// perLayer reads an integer that is one for all layers, then at least low, or an array of one each, which may be zero;
// nil when it is absent.
func (r *reader) perLayer(name string, layers, low, high int) []int {
	key, v := r.find(name)
	if v == nil {
		return nil
	}
	all := make([]int, layers)
	a, ok := v.Array()
	if !ok {
		n := r.integer(key, v, low, high)
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
		all[i] = r.integer(fmt.Sprintf("%s[%d]", key, i), a.At(i), 0, high)
	}
	return all
}

// float reads a number of the family's within bounds. given is false when the key is absent: x is its default then.
func (r *reader) float(name string, low, high float64) (x float64, given bool) {
	key, v := r.find(name)
	if v == nil {
		return r.absent(name), false
	}
	x, ok := v.Float()
	switch {
	case !ok:
		r.fail(ErrInvalid, key, "is of kind %s, not a number", v.Kind())
	case !(x >= low && x <= high): // also NaN
		r.fail(ErrInvalid, key, "%g, want %g to %g", x, low, high)
	default:
		return x, true
	}
	return 0, true
}

// model reads the hyperparameters of a family.
func (r *reader) model(m *Model, f Family) {
	layers, _ := r.count("block_count", 1, maxLayers)
	m.Context, _ = r.count("context_length", 1, maxContext)
	m.Width, _ = r.count("embedding_length", 1, maxWidth)
	eps, _ := r.float("attention.layer_norm_rms_epsilon", 1e-12, 1)
	heads := r.perLayer("attention.head_count", layers, 1, maxHeads)
	kvHeads := r.perLayer("attention.head_count_kv", layers, 1, maxHeads)
	if kvHeads == nil {
		kvHeads = heads
	}
	ff := r.perLayer("feed_forward_length", layers, 1, maxFF)
	softcap, _ := r.float("attn_logit_softcapping", 0, 1e6)
	finalSoftcap, _ := r.float("final_logit_softcapping", 0, 1e6)
	keyDim, valueDim, rope := r.heads(m, f, heads)
	m.Vocab = r.vocab()
	if r.err != nil {
		return
	}
	m.Eps, m.FinalSoftcap = float32(eps), float32(finalSoftcap)
	m.Layers = make([]Layer, layers)
	for i := range m.Layers {
		l := Layer{FF: ff[i]}
		if heads[i] > 0 {
			if kvHeads[i] == 0 || heads[i]%kvHeads[i] != 0 {
				r.fail(ErrInvalid, r.prefix+"attention.head_count_kv", "%d key-value heads do not divide %d heads in layer %d", kvHeads[i], heads[i], i)
				return
			}
			l.Heads, l.KVHeads, l.KeyDim, l.ValueDim = heads[i], kvHeads[i], keyDim, valueDim
			l.Rope, l.AttnSoftcap = rope, float32(softcap)
		}
		m.Layers[i] = l
	}
	r.windows(m, f)
	r.scales(m, f)
	r.experts(m)
}

// windows reads which layers see a window only, and what else is different in them.
func (r *reader) windows(m *Model, f Family) {
	const pattern, localBase = "attention.sliding_window_pattern", "rope.freq_base_swa"
	window, given := r.count("attention.sliding_window", 0, maxContext)
	if !given {
		window = f.Kept.Window
	}
	local := slices.Repeat([]bool{true}, len(m.Layers))
	if r.reads(pattern) {
		local = r.localLayers(len(m.Layers), f.Kept.Period)
	}
	base := 0.0 // the same
	if r.reads(localBase) {
		base, _ = r.float(localBase, 1, 1e12)
	}
	for i := range m.Layers {
		l := &m.Layers[i]
		if l.Heads == 0 {
			continue
		}
		if local[i] && window > 0 {
			l.Window = window
			if f.PlainWindows {
				l.Rope = tensor.RopeParams{Form: l.Rope.Form, Dims: l.Rope.Dims, Base: l.Rope.Base, Scale: 1, AttnFactor: 1}
			}
			if base > 0 {
				l.Rope.Base = float32(base)
			}
		}
		if f.Unrotated != nil && f.Unrotated(m, l, i) {
			l.Rope = tensor.RopeParams{}
		}
	}
}

// scales reads the factors of embeddings, scores, residual sums and logits. A stated 0 is none.
func (r *reader) scales(m *Model, f Family) {
	if f.ScaledEmbedding {
		m.EmbedScale = float32(math.Sqrt(float64(m.Width)))
	}
	factor := func(name string) float32 {
		if r.reads(name) {
			if x, given := r.float(name, 0, 1e6); given && x != 0 {
				return float32(x)
			}
		}
		return 1
	}
	if x := factor("embedding_scale"); x != 1 {
		m.EmbedScale = x
	}
	m.ResidualScale, m.LogitScale = factor("residual_scale"), 1/factor("logit_scale")
	scale, given := r.float("attention.scale", 1e-6, 1e6)
	for i := range m.Layers {
		l := &m.Layers[i]
		switch {
		case l.Heads == 0:
		case given:
			l.AttnScale = float32(scale)
		case f.AttnScale != nil:
			l.AttnScale = float32(f.AttnScale(m, l))
		default:
			l.AttnScale = float32(1 / math.Sqrt(float64(l.KeyDim)))
		}
	}
}

// experts reads how many experts there are, if the family may have some.
func (r *reader) experts(m *Model) {
	if !r.reads("expert_count") {
		return
	}
	m.Experts, _ = r.count("expert_count", 0, maxExperts)
	m.ExpertsUsed, _ = r.count("expert_used_count", 0, maxExperts)
	if m.Experts > 0 && (m.ExpertsUsed < 1 || m.ExpertsUsed > m.Experts) {
		r.fail(ErrInvalid, r.prefix+"expert_used_count", "%d of %d experts", m.ExpertsUsed, m.Experts)
	}
}

// reads reports whether the family reads a key.
func (r *reader) reads(name string) bool {
	x, declared := r.keys.Find(name)
	return declared && x.Effect == Read
}

// heads reads what one head is like. Without a stated width it is the model's, divided by the heads of
// the first layer with attention.
func (r *reader) heads(m *Model, f Family, heads []int) (keyDim, valueDim int, rope tensor.RopeParams) {
	n := 0
	for _, h := range heads {
		if n == 0 {
			n = h
		}
	}
	if r.err != nil {
		return 0, 0, tensor.RopeParams{}
	}
	if n == 0 {
		r.fail(ErrInvalid, r.prefix+"attention.head_count", "0 in every layer: the model has no attention")
		return 0, 0, tensor.RopeParams{}
	}
	keyDim, given := r.count("attention.key_length", 1, maxHeadDim)
	if !given && r.err == nil {
		if keyDim = m.Width / n; m.Width%n != 0 || keyDim > maxHeadDim {
			r.fail(ErrInvalid, r.prefix+"attention.head_count", "width %[2]d does not give %[1]d heads of a valid width, and attention.key_length is absent", n, m.Width)
		}
	}
	if valueDim, given = r.count("attention.value_length", 1, maxHeadDim); !given {
		valueDim = keyDim
	}
	return keyDim, valueDim, r.rope(m, f, keyDim)
}

// rope reads the rotary embedding and its scaling.
func (r *reader) rope(m *Model, f Family, keyDim int) tensor.RopeParams {
	dims, given := r.count("rope.dimension_count", 2, maxHeadDim)
	if !given {
		dims = keyDim
	}
	base, _ := r.float("rope.freq_base", 1, 1e12)
	if r.err == nil && (dims%2 != 0 || dims > keyDim) {
		r.fail(ErrInvalid, r.prefix+"rope.dimension_count", "%d for heads of width %d: must be even and not larger", dims, keyDim)
	}
	factor, _ := r.float("rope.scaling.factor", 0, 1e6)
	switch {
	case factor == 0:
		factor = 1
	case factor < 1e-3: // angles would turn by hundreds of circles from one position to the next
		r.fail(ErrInvalid, r.prefix+"rope.scaling.factor", "%g, want 0 or 0.001 to 1e+06", factor)
	}
	attn, _ := r.float("rope.scaling.attn_factor", 1e-3, 1e3)
	p := tensor.RopeParams{Form: f.Rope, Dims: uint32(dims), Base: float32(base), Scale: float32(1 / factor), AttnFactor: float32(attn)}
	factors := slices.ContainsFunc(f.Tensors, func(r Row) bool { return r.Role == tensor.RopeFactorsLong })
	if factors {
		if m.ShortContext, given = r.count("rope.scaling.original_context_length", 1, maxContext); !given {
			m.ShortContext = m.Context
		}
	}
	key, kind := r.find("rope.scaling.type")
	if kind == nil || r.err != nil {
		return p
	}
	switch r.text(key, true) {
	case "none":
		p.Scale = 1
	case "linear":
	case "yarn":
		r.yarn(m, &p, factor)
	case "longrope":
		if p.Scale = 1; !factors {
			r.fail(ErrUnsupported, key, "longrope needs factors, which this architecture does not read")
		}
	default:
		r.fail(ErrUnsupported, key, "unknown scaling %s, want none, linear or yarn", words(kind))
	}
	return p
}

// yarn reads what scaling by YaRN needs beside its factor. Peng et al. 2023, section 3.4: attention sharpens with the
// logarithm of the factor.
func (r *reader) yarn(m *Model, p *tensor.RopeParams, factor float64) {
	ext, _ := r.float("rope.scaling.yarn_ext_factor", 0, 1)
	fast, _ := r.float("rope.scaling.yarn_beta_fast", 1e-3, 1e6)
	slow, _ := r.float("rope.scaling.yarn_beta_slow", 1e-3, 1e6)
	original, given := r.count("rope.scaling.original_context_length", 1, maxContext)
	if !given {
		original = m.Context
	}
	p.ExtFactor, p.BetaFast, p.BetaSlow, p.OriginalContext = float32(ext), float32(fast), float32(slow), uint32(original)
	sharper := 1.0
	if ext != 0 {
		sharper += 0.1 * math.Log(factor)
	}
	p.AttnFactor *= float32(sharper)
	const stated = "rope.scaling.yarn_attn_factor"
	if x, given := r.float(stated, 1e-3, 1e3); given && math.Abs(x-sharper) > 1e-4*sharper {
		r.fail(ErrUnsupported, r.prefix+stated, "%g: it is ambiguous whether this replaces or multiplies the default of %g", x, sharper)
	}
}

// vocab is the number of tokens: those listed, else stated, else the rows of the embedding table.
func (r *reader) vocab() int {
	const tokens = "tokenizer.ggml.tokens"
	if v, ok := r.h.Value(tokens); ok {
		a, ok := v.Array()
		switch {
		case !ok || a.Elem() != String:
			r.fail(ErrInvalid, tokens, "is not an array of strings")
		case a.Len() < 1 || a.Len() > maxVocab:
			r.fail(ErrInvalid, tokens, "%d tokens, want 1 to %d", a.Len(), maxVocab)
		default:
			return a.Len()
		}
		return 0
	}
	if n, given := r.count("vocab_size", 1, maxVocab); given || r.err != nil {
		return n
	}
	name := tensor.IDOf(tensor.TokenEmbed, -1).String()
	for _, t := range r.h.Tensors() {
		if t.Name == name && t.Shape.Rank == 2 && t.Shape.Dims[0] >= 1 && t.Shape.Dims[0] <= maxVocab {
			return int(t.Shape.Dims[0])
		}
	}
	r.fail(ErrMissing, r.prefix+"vocab_size", "absent, and neither %s nor %s gives the number of tokens", tokens, name)
	return 0
}
