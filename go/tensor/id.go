package tensor

import (
	"iter"
	"strconv"
	"strings"
)

// Role is the purpose of a tensor in a model.
type Role uint8

// The roles, grouped by whether there is one tensor per model or one per layer.
const (
	NoRole Role = iota

	// One per model: "<role>.weight".
	TokenEmbed
	TokenEmbedNorm
	Output
	OutputNorm
	RopeFreqs
	RopeFactorsLong
	RopeFactorsShort

	// One per layer: "blk.<layer>.<role>.weight".
	AttnNorm
	AttnNorm2
	AttnQ
	AttnK
	AttnV
	AttnQKV
	AttnOutput
	AttnQNorm
	AttnKNorm
	AttnSinks
	AttnGate
	AttnSubNorm
	AttnOutputNorm
	PostAttnNorm
	FFNNorm
	PostFFNNorm
	LayerOutputNorm
	FFNGate
	FFNUp
	FFNDown
	FFNSubNorm
	RouterGate // selects the experts
	RouterBias // changes which experts are selected, not their weights
	GateExperts
	UpExperts
	DownExperts
	GateUpExperts
	SharedRouterGate
	SharedGate
	SharedUp
	SharedDown
)

// roles is the one table of names: the stem, and whether each layer has its own.
var roles = [...]struct {
	stem  string
	layer bool
}{
	NoRole:           {"", false},
	TokenEmbed:       {"token_embd", false},
	TokenEmbedNorm:   {"token_embd_norm", false},
	Output:           {"output", false},
	OutputNorm:       {"output_norm", false},
	RopeFreqs:        {"rope_freqs", false},
	RopeFactorsLong:  {"rope_factors_long", false},
	RopeFactorsShort: {"rope_factors_short", false},
	AttnNorm:         {"attn_norm", true},
	AttnNorm2:        {"attn_norm_2", true},
	AttnQ:            {"attn_q", true},
	AttnK:            {"attn_k", true},
	AttnV:            {"attn_v", true},
	AttnQKV:          {"attn_qkv", true},
	AttnOutput:       {"attn_output", true},
	AttnQNorm:        {"attn_q_norm", true},
	AttnKNorm:        {"attn_k_norm", true},
	AttnSinks:        {"attn_sinks", true},
	AttnGate:         {"attn_gate", true},
	AttnSubNorm:      {"attn_sub_norm", true},
	AttnOutputNorm:   {"attn_output_norm", true},
	PostAttnNorm:     {"post_attention_norm", true},
	FFNNorm:          {"ffn_norm", true},
	PostFFNNorm:      {"post_ffw_norm", true},
	LayerOutputNorm:  {"layer_output_norm", true},
	FFNGate:          {"ffn_gate", true},
	FFNUp:            {"ffn_up", true},
	FFNDown:          {"ffn_down", true},
	FFNSubNorm:       {"ffn_sub_norm", true},
	RouterGate:       {"ffn_gate_inp", true},
	RouterBias:       {"exp_probs_b", true},
	GateExperts:      {"ffn_gate_exps", true},
	UpExperts:        {"ffn_up_exps", true},
	DownExperts:      {"ffn_down_exps", true},
	GateUpExperts:    {"ffn_gate_up_exps", true},
	SharedRouterGate: {"ffn_gate_inp_shexp", true},
	SharedGate:       {"ffn_gate_shexp", true},
	SharedUp:         {"ffn_up_shexp", true},
	SharedDown:       {"ffn_down_shexp", true},
}

type stemKey struct {
	stem  string
	layer bool
}

// roleOf is the table the other way round.
var roleOf = func() map[stemKey]Role {
	m := make(map[stemKey]Role, len(roles))
	for r, row := range roles {
		m[stemKey{row.stem, row.layer}] = Role(r)
	}
	delete(m, stemKey{})
	return m
}()

// Roles lists all roles.
func Roles() iter.Seq[Role] {
	return func(yield func(Role) bool) {
		for r := NoRole + 1; int(r) < len(roles); r++ {
			if !yield(r) {
				return
			}
		}
	}
}

// String is the stem of the names of such tensors in GGUF files, e.g. "attn_q".
func (r Role) String() string {
	if int(r) < len(roles) && r != NoRole {
		return roles[r].stem
	}
	return "role " + strconv.Itoa(int(r))
}

// PerLayer reports whether each layer has its own tensor of the role.
func (r Role) PerLayer() bool { return int(r) < len(roles) && roles[r].layer }

// Kind distinguishes the matrix of a projection from its bias.
type Kind uint8

// The kinds.
const (
	Weight Kind = iota
	Bias
)

// kinds are the suffixes of names.
var kinds = [...]string{Weight: "weight", Bias: "bias"}

// String is the last part of a tensor's name: "weight" or "bias".
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// ID identifies a tensor of a model by layer, role and kind instead of by name. It is comparable and can be a map key.
type ID struct {
	Layer int32 // -1 outside of layers
	Role  Role
	Kind  Kind
}

// IDOf returns the ID of a role's weight in a layer. The layer is ignored for roles that exist once per model.
func IDOf(r Role, layer int) ID {
	if !r.PerLayer() {
		layer = -1
	}
	return ID{Layer: int32(layer), Role: r}
}

// String is the tensor's name in GGUF files, such as "blk.3.attn_q.weight". ParseID is its inverse.
func (id ID) String() string {
	name := id.Role.String() + "." + id.Kind.String()
	if id.Role.PerLayer() {
		return "blk." + strconv.Itoa(int(id.Layer)) + "." + name
	}
	return name
}

// ParseID parses the name of a GGUF tensor. ok is false if the name has no role here; callers must report such a
// tensor, not drop it. If ok, id.String() equals name.
func ParseID(name string) (id ID, ok bool) {
	id.Layer = -1
	rest, perLayer := strings.CutPrefix(name, "blk.")
	if perLayer {
		number, tail, found := strings.Cut(rest, ".")
		n, err := strconv.ParseInt(number, 10, 32)
		if !found || err != nil || strconv.FormatInt(n, 10) != number || n < 0 {
			return ID{}, false
		}
		id.Layer, rest = int32(n), tail
	}
	stem, suffix, _ := strings.Cut(rest, ".")
	if id.Role, ok = roleOf[stemKey{stem, perLayer}]; !ok {
		return ID{}, false
	}
	for k, s := range kinds {
		if s == suffix {
			id.Kind = Kind(k)
			return id, true
		}
	}
	return ID{}, false
}
