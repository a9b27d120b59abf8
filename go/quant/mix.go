package quant

import (
	"fmt"
	"strings"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// mix is a recipe: which tensor of a model is encoded how.
type mix struct {
	name     string
	fileType uint32 // general.file_type
	base     tensor.Encoding
	rules    []rule // the first that holds decides; without one it is base
}

// rule gives tensors of some roles another encoding. when is nil for always.
type rule struct {
	roles []tensor.Role
	when  func(p place) bool
	as    tensor.Encoding
}

// place is where in a model a tensor stands.
type place struct {
	nth, of  int // among the tensors of its group of roles, in order of layers; downs: of all layers
	group    int // query heads per key-value head
	experts  int
	layers   int
	expert3D bool
}

// The groups of roles that rules speak of. A fused projection counts as its most sensitive part, the values.
var (
	values     = []tensor.Role{tensor.AttnV, tensor.AttnQKV}
	downs      = []tensor.Role{tensor.FFNDown, tensor.DownExperts, tensor.SharedDown}
	attnOutput = []tensor.Role{tensor.AttnOutput}
	attnK      = []tensor.Role{tensor.AttnK}
	embedding  = []tensor.Role{tensor.TokenEmbed}
	head       = []tensor.Role{tensor.Output} // and the embedding table of a model without
)

// outer is the first and last eighth of the layers and every third between.
func outer(p place) bool {
	eighth := p.of / 8
	return p.nth < eighth || p.nth >= 7*p.of/8 || (p.nth-eighth)%3 == 2
}
func firstEighth(p place) bool    { return p.nth < p.of/8 }
func firstSixteenth(p place) bool { return p.nth < p.of/16 }
func grouped(p place) bool        { return p.group >= 4 }
func eightExperts(p place) bool   { return p.experts == 8 }
func ofExperts(p place) bool      { return p.expert3D }
func first(n int) func(place) bool {
	return func(p place) bool { return p.nth < n }
}

// mixes is THE table of recipes, in the order of their file types. Numbers, names and the choice per tensor are
// those that the community's files have: the file types of llama.cpp (include/llama.h, and the choice of types in
// src/llama-quant.cpp) as they are without an importance matrix. Without a rule for the head it is Q6_K, or Q8_0
// where that is the base; see Choose for what holds of all mixes. Formats that are decoded only have no recipes
// here: synthetic models are of them alone.
var mixes = []mix{
	{"F32", 0, tensor.EncF32, nil},
	{"F16", 1, tensor.EncF16, nil},
	{"Q4_0", 2, tensor.Q4_0, nil},
	{"Q4_1", 3, tensor.Q4_1, nil},
	{"Q8_0", 7, tensor.Q8_0, nil},
	{"Q5_0", 8, tensor.Q5_0, nil},
	{"Q5_1", 9, tensor.Q5_1, nil},
	{"Q2_K", 10, tensor.Q2_K, []rule{
		{values, grouped, tensor.Q4_K}, {values, nil, tensor.Q3_K}, {downs, nil, tensor.Q3_K},
		{attnOutput, eightExperts, tensor.Q5_K}, {attnOutput, nil, tensor.Q3_K}}},
	{"Q3_K_S", 11, tensor.Q3_K, []rule{{attnOutput, eightExperts, tensor.Q5_K}}},
	{"Q3_K_M", 12, tensor.Q3_K, []rule{
		{values, first(2), tensor.Q5_K}, {values, nil, tensor.Q4_K}, {downs, firstSixteenth, tensor.Q5_K}, {downs, nil, tensor.Q4_K},
		{attnOutput, eightExperts, tensor.Q5_K}, {attnOutput, nil, tensor.Q4_K}}},
	{"Q3_K_L", 13, tensor.Q3_K, []rule{
		{values, nil, tensor.Q5_K}, {downs, nil, tensor.Q5_K}, {attnOutput, eightExperts, tensor.Q3_K}, {attnOutput, nil, tensor.Q5_K}}},
	{"Q4_K_S", 14, tensor.Q4_K, []rule{
		{values, first(4), tensor.Q5_K}, {downs, firstEighth, tensor.Q5_K}, {attnOutput, eightExperts, tensor.Q5_K}}},
	{"Q4_K_M", 15, tensor.Q4_K, []rule{
		{values, outer, tensor.Q6_K}, {downs, outer, tensor.Q6_K}, {attnOutput, eightExperts, tensor.Q5_K}}},
	{"Q5_K_S", 16, tensor.Q5_K, nil},
	{"Q5_K_M", 17, tensor.Q5_K, []rule{{values, outer, tensor.Q6_K}, {downs, outer, tensor.Q6_K}}},
	{"Q6_K", 18, tensor.Q6_K, nil},
	{"IQ2_XXS", 19, tensor.IQ2_XXS, nil},
	{"IQ2_XS", 20, tensor.IQ2_XS, nil},
	{"Q2_K_S", 21, tensor.Q2_K, []rule{{values, grouped, tensor.Q4_K}, {downs, firstEighth, tensor.Q4_K}}},
	{"IQ3_XXS", 23, tensor.IQ3_XXS, nil},
	{"IQ1_S", 24, tensor.IQ1_S, nil},
	{"IQ4_NL", 25, tensor.IQ4_NL, []rule{
		{values, grouped, tensor.Q5_K}, {downs, firstEighth, tensor.Q5_K}, {attnOutput, eightExperts, tensor.Q5_K}}},
	{"IQ3_S", 26, tensor.IQ3_S, nil},
	{"IQ2_S", 28, tensor.IQ2_S, nil},
	{"IQ4_XS", 30, tensor.IQ4_XS, []rule{
		{values, grouped, tensor.Q5_K}, {downs, firstEighth, tensor.Q5_K}, {attnOutput, eightExperts, tensor.Q5_K}}},
	{"IQ1_M", 31, tensor.IQ1_M, nil},
	{"BF16", 32, tensor.EncBF16, nil},
	{"TQ1_0", 36, tensor.TQ1_0, []rule{{embedding, nil, tensor.Q4_K}}},
	{"TQ2_0", 37, tensor.TQ2_0, []rule{{embedding, nil, tensor.Q4_K}}},
	{"MXFP4_MOE", 38, tensor.Q8_0, []rule{
		{[]tensor.Role{tensor.GateExperts, tensor.UpExperts, tensor.DownExperts, tensor.GateUpExperts}, ofExperts, tensor.MXFP4}}},
	{"MXFP4", 38, tensor.MXFP4, []rule{{head, nil, tensor.Q8_0}}},
	{"NVFP4", 39, tensor.NVFP4, nil},
	{"Q1_0", 40, tensor.Q1_0, nil},
	{"Q2_0", 41, tensor.Q2_0, []rule{{embedding, nil, tensor.Q4_K}}},
}

// aliases are the formats that name no file type by themselves: the mixes that people mean.
var aliases = map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

// Types lists the types that File accepts: mixes of formats, and single formats. Q3_K, Q4_K and Q5_K stand for Q3_K_M,
// Q4_K_M and Q5_K_M. Synth also accepts the formats that have no encoder.
func Types() []string {
	var names []string
	for _, m := range mixes {
		if skeep.Encodable(tensor.FormatOf(m.base)) {
			names = append(names, m.name)
		}
	}
	return names
}

// TypeName is the name of the type that general.file_type says in a number, "" when it is none of a whole model.
func TypeName(fileType int64) string {
	for _, m := range mixes {
		if int64(m.fileType) == fileType {
			return m.name
		}
	}
	return ""
}

// parseType finds a mix by its name, or by that of a format, in any case.
func parseType(name string) (mix, error) {
	upper := strings.ToUpper(name)
	if long, ok := aliases[upper]; ok {
		upper = long
	}
	for _, m := range mixes {
		if m.name == upper {
			return m, nil
		}
	}
	return mix{}, &TypeError{Name: name, Reason: "unknown type", Known: Types()}
}

// encodableType is parseType for what can be encoded.
func encodableType(name string) (mix, error) {
	m, err := parseType(name)
	if err == nil && !skeep.Encodable(tensor.FormatOf(m.base)) {
		err = &TypeError{Name: name, Reason: fmt.Sprintf("%s has no encoder", m.base), Known: Types()}
	}
	return m, err
}

// TypeError says that files of a type cannot be made.
type TypeError struct {
	Name   string
	Reason string
	Known  []string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("quant: type %q: %s; want one of %s", e.Name, e.Reason, strings.Join(e.Known, ", "))
}
