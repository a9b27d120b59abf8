package quant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
)

// Decision is the chosen encoding of one tensor.
type Decision struct {
	Name   string
	Shape  tensor.Shape
	From   tensor.Encoding
	To     tensor.Encoding
	Bytes  int64  // of the result
	Reason string // why this encoding was chosen
	Note   string // something unusual about the decision, or ""
}

// Choose chooses the encoding of every tensor of a model, in file order, from its header alone. typ is the name of a
// mix or a format, in any case. With pure, every tensor that may be packed gets that one format. Errors are *TypeError
// or *Error.
//
// All mixes follow these rules. A tensor keeps its format if it has fewer than two axes longer than 1, if it is a norm,
// a router or another small tensor that strongly affects results, if its name does not end in "weight", or if it holds
// integers. The output head, or the embedding table that also serves as head, is Q6_K (Q8_0 if that is the base format
// or if its rows are not whole blocks of the base format). Models with eight experts keep the weights of keys and
// values in Q8_0; models with 80 layers and grouped heads keep those of values in at least Q5_K. If rows are not whole
// blocks of a format, a format with blocks of 32 elements and about as many bits is used instead, or else F16.
func Choose(h arch.Header, typ string, pure bool) ([]Decision, error) {
	if h == nil {
		return nil, needed("header")
	}
	m, err := encodableType(typ)
	if err != nil {
		return nil, err
	}
	return m.choose(h, pure)
}

// choose is Choose for a mix.
func (m mix) choose(h arch.Header, pure bool) ([]Decision, error) {
	c := chooser{mix: m, pure: pure}
	c.facts(h)
	decisions := make([]Decision, 0, len(h.Tensors()))
	for _, t := range h.Tensors() {
		if t.Bytes < 0 {
			return nil, &Error{Tensor: t.Name, Row: -1, Column: -1, Reason: "its type " + t.TypeName() + " is unknown or retired", Err: ErrUnsupported}
		}
		d := c.decide(t)
		var err error
		if d.Bytes, err = tensor.FormatOf(d.To).Bytes(t.Shape); err != nil || t.Bytes == 0 {
			d.Bytes = t.Bytes // an extent of zero, or an odd shape that is kept
		}
		decisions = append(decisions, d)
	}
	return decisions, nil
}

type chooser struct {
	mix   mix
	pure  bool
	place place
	tied  bool                  // the embedding table is the head
	order map[tensor.Role][]int // layers that have a tensor of the role's group
}

// facts reads what rules ask for. What a file does not say counts as usual.
func (c *chooser) facts(h arch.Header) {
	family := ""
	if v, ok := h.Value("general.architecture"); ok {
		family, _ = v.Text()
	}
	number := func(key string) int {
		v, ok := h.Value(family + "." + key)
		if !ok {
			return 0
		}
		if a, ok := v.Array(); ok { // one for each layer: the first that is not 0 stands for all
			for i := range a.Len() {
				if n, _ := a.At(i).Int(); n > 0 {
					return int(n)
				}
			}
			return 0
		}
		n, _ := v.Int()
		return int(n)
	}
	c.place.experts, c.place.layers, c.place.group = number("expert_count"), number("block_count"), 1
	if kv := number("attention.head_count_kv"); kv > 0 {
		c.place.group = number("attention.head_count") / kv
	}
	c.tied = true
	c.order = map[tensor.Role][]int{}
	for _, t := range h.Tensors() {
		if id, ok := tensor.ParseID(t.Name); ok && id.Kind == tensor.Weight {
			c.tied = c.tied && id.Role != tensor.Output
			c.order[grouping(id.Role)] = append(c.order[grouping(id.Role)], int(id.Layer))
		}
	}
	for r := range c.order {
		slices.Sort(c.order[r])
		c.order[r] = slices.Compact(c.order[r])
	}
}

// grouping is the first role of the group that a role is counted in.
func grouping(r tensor.Role) tensor.Role {
	for _, group := range [][]tensor.Role{values, downs} {
		if slices.Contains(group, r) {
			return group[0]
		}
	}
	return r
}

// small are parts of names of tensors that are small and that results hang on; they are of rank two in some
// architectures.
var small = []string{
	"_norm.", "ffn_gate_inp", "position_embd", "token_types", "ssm_conv1d", "shortconv.conv", "attn_rel_b",
	"time_mix_first.", "time_mix_w0.", "time_mix_w1.", "time_mix_w2.", "time_mix_v0.", "time_mix_v1.", "time_mix_v2.",
	"time_mix_a0.", "time_mix_a1.", "time_mix_a2.", "time_mix_g1.", "time_mix_g2.", "time_mix_decay_w1.",
	"time_mix_decay_w2.", "time_mix_lerp_fused.", "altup", "laurel", "per_layer_model_proj", "indexer.k_proj",
	"indexer.q_proj", ".rel_pos", ".patch_embd", ".patch_merger", "sam.pos_embd", "sam.neck.", "sam.net_",
	"a.rvq.codebook", "mm.a.code_embd",
}

func (c *chooser) decide(t arch.TensorInfo) Decision {
	d := Decision{Name: t.Name, Shape: t.Shape, From: t.Encoding, To: t.Encoding}
	info, _ := t.Encoding.Info()
	switch {
	case info.Integer || info.Activation:
		d.Reason = "kept: holds " + info.Name
		return d
	case thin(t.Shape):
		d.Reason = "kept: fewer than two axes"
		return d
	case !strings.HasSuffix(t.Name, "weight"):
		d.Reason = "kept: not a weight"
		return d
	case t.Bytes == 0:
		d.Reason = "kept: empty"
		return d
	}
	for _, part := range small {
		if strings.Contains(t.Name, part) {
			d.Reason = fmt.Sprintf("kept: small (%s)", strings.Trim(part, "._"))
			return d
		}
	}
	d.To, d.Reason = c.choose(t)
	d.To, d.Note = fit(d.To, t.Shape)
	if d.From == d.To {
		d.Reason += "; bytes are copied"
	} else if info.BlockElements > 1 {
		d.Note = strings.TrimPrefix(d.Note+"; decoded from "+info.Name+", which has already lost precision", "; ")
	}
	return d
}

// thin reports whether all axes but the last have extent 1: files write some vectors with those.
func thin(s tensor.Shape) bool {
	for _, n := range s.Dims[:max(1, s.Rank)-1] {
		if n != 1 {
			return false
		}
	}
	return true
}

// choose is the mix's answer.
func (c *chooser) choose(t arch.TensorInfo) (tensor.Encoding, string) {
	id, known := tensor.ParseID(t.Name)
	base, _ := c.mix.base.Info()
	if c.pure || !known || base.BlockElements == 1 {
		return c.mix.base, c.mix.name
	}
	role := id.Role
	if role == tensor.TokenEmbed && c.tied {
		role = tensor.Output
	}
	p := c.place
	layers := c.order[grouping(role)]
	p.nth, p.of = slices.Index(layers, int(id.Layer)), len(layers)
	if slices.Contains(downs, role) && p.layers > 0 {
		if p.of = p.layers; p.experts > 1 {
			p.nth = int(id.Layer)
		}
	}
	p.expert3D = t.Shape.Rank > 2
	to, reason := c.mix.base, c.mix.name
	ruled := false
	for _, r := range c.mix.rules {
		if slices.Contains(r.roles, role) && (r.when == nil || r.when(p)) {
			to, reason, ruled = r.as, c.mix.name+": "+role.String(), true
			break
		}
	}
	switch {
	case role == tensor.Output && !ruled:
		to, reason = tensor.Q6_K, "head"
		if c.mix.base == tensor.Q8_0 || t.Shape.Dims[t.Shape.Rank-1]%int64(base.BlockElements) != 0 {
			to = tensor.Q8_0
		}
	case eightExperts(p) && (slices.Contains(values, role) || slices.Contains(attnK, role)):
		to, reason = tensor.Q8_0, "values and keys of a model with eight experts"
	case slices.Contains(values, role) && p.layers == 80 && p.group > 1 && (to == tensor.Q3_K || to == tensor.Q4_K):
		to, reason = tensor.Q5_K, "values of grouped heads in a model with 80 layers"
	}
	return to, reason
}

// narrower is what serves instead of a format whose blocks do not fit the rows.
var narrower = map[tensor.Encoding]tensor.Encoding{
	tensor.Q2_K: tensor.Q4_0, tensor.Q3_K: tensor.Q4_0, tensor.TQ1_0: tensor.Q4_0, tensor.TQ2_0: tensor.Q4_0,
	tensor.Q1_0: tensor.Q4_0, tensor.Q2_0: tensor.Q4_0, tensor.NVFP4: tensor.MXFP4, tensor.IQ4_XS: tensor.IQ4_NL,
	tensor.Q4_K: tensor.Q5_0, tensor.Q5_K: tensor.Q5_1, tensor.Q6_K: tensor.Q8_0,
}

// fit finds a format whose blocks fit the rows.
func fit(e tensor.Encoding, s tensor.Shape) (tensor.Encoding, string) {
	row := s.Dims[s.Rank-1]
	fits := func(e tensor.Encoding) bool {
		info, _ := e.Info()
		return row%int64(info.BlockElements) == 0
	}
	if fits(e) {
		return e, ""
	}
	to, ok := narrower[e]
	if !ok || !fits(to) {
		to = tensor.EncF16
	}
	return to, fmt.Sprintf("rows of %d elements are not whole blocks of %s: %s is used instead", row, e, to)
}
