package resolver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
)

// Term is one line of a plan.
type Term struct {
	Name    string
	Group   Group
	Bytes   int64
	Domain  tensor.Domain
	Private bool // belongs to the process alone
	Items   int  // weights, or layers
	// Touched is how many of the bytes one generated token reads; rows that are looked up do not count.
	Touched int64
	Formula string // how the bytes come about
}

// Group is what a term is for.
type Group string

// The groups, in the order of a plan.
const (
	GroupWeights Group = "weights"
	GroupKV      Group = "kv"
	GroupSlab    Group = "slab"
	GroupProcess Group = "process" // what a process needs beside a model
)

// terms lists everything, and sums the pools.
func (p *Plan) terms(costs []Term) {
	p.weightTerms()
	p.kvTerms()
	slab, _ := p.Resolution.Decision(NeedSlab)
	p.Terms = append(p.Terms, Term{Name: "slab", Group: GroupSlab, Bytes: slab.Form.Bytes, Domain: slab.Spec.Domain, Private: true, Items: p.Sequences,
		Formula: fmt.Sprintf("2 × results of the largest layer for %d tokens%s", p.KV.Chunk, p.ofSessions())})
	p.Terms = append(p.Terms, costs...)
	for _, t := range p.Terms {
		if t.Private {
			p.Private = add(p.Private, t.Bytes)
		} else {
			p.Mapped = add(p.Mapped, t.Bytes)
		}
		p.TokenBytes = add(p.TokenBytes, t.Touched)
	}
}

func (p *Plan) ofSessions() string {
	if p.Sequences == 1 {
		return ""
	}
	return fmt.Sprintf(" × %d sessions", p.Sequences)
}

// weightTerms groups weights by form and place, in the order in which they first occur.
func (p *Plan) weightTerms() {
	at := map[string]int{}
	for _, d := range p.Resolution.Decisions {
		if !d.IsWeight || d.Form.Action == Skip {
			continue
		}
		place := d.Spec.Domain.String()
		switch {
		case d.Form.Residency == PackPages && !d.Private():
			place = "pack"
		case d.Borrowed():
			place = "in place"
		}
		name := fmt.Sprintf("weights %s, %s", d.Form, place)
		i, known := at[name]
		if !known {
			i = len(p.Terms)
			at[name] = i
			p.Terms = append(p.Terms, Term{Name: name, Group: GroupWeights, Domain: d.Spec.Domain, Private: d.Private(), Formula: "bytes of the tensors in this form"})
		}
		t := &p.Terms[i]
		t.Items++
		t.Bytes = add(t.Bytes, d.Form.Bytes)
		t.Touched = add(t.Touched, p.touched(d))
	}
}

// touched is how many bytes of a weight one generated token reads: of experts, those of the ones in use.
func (p *Plan) touched(d Decision) int64 {
	if d.Use&(Multiplied|Elementwise) == 0 {
		return 0
	}
	g := &p.Sizes.Geometry
	if id, known := tensor.ParseID(d.Name); known && slices.Contains(expertRoles, id.Role) && g.Experts > 0 && g.ExpertsUsed > 0 {
		return d.Form.Bytes / int64(g.Experts) * int64(min(g.ExpertsUsed, g.Experts))
	}
	return d.Form.Bytes
}

// expertRoles are the weights of which a token uses some experts only.
var expertRoles = []tensor.Role{tensor.GateExperts, tensor.UpExperts, tensor.DownExperts, tensor.GateUpExperts}

// kvTerms groups layers with caches of the same geometry.
func (p *Plan) kvTerms() {
	kv, _ := p.Resolution.Decision(NeedKV)
	type line struct {
		layers []string
		bytes  int64
	}
	lines, order := map[string]*line{}, []string{}
	for i := range p.Sizes.Layers {
		l := &p.Sizes.Layers[i]
		n, err := cache(l, p.KV, p.KVFormat)
		if err != nil || n == 0 { // the sum was computed before
			continue
		}
		formula := l.Formula()
		if lines[formula] == nil {
			lines[formula] = &line{}
			order = append(order, formula)
		}
		x := lines[formula]
		x.layers = append(x.layers, fmt.Sprint(i))
		x.bytes = add(x.bytes, times(n, int64(p.Sequences)))
	}
	for _, formula := range order {
		x := lines[formula]
		name := "kv, layer " + x.layers[0]
		if len(x.layers) > 1 {
			name = "kv, layers " + ranges(x.layers)
		}
		p.Terms = append(p.Terms, Term{Name: name, Group: GroupKV, Bytes: x.bytes, Domain: kv.Spec.Domain, Private: true, Items: len(x.layers),
			Formula: fmt.Sprintf("%d layers × %s in %s%s", len(x.layers), formula, p.KVFormat.Encoding, p.ofSessions())})
	}
}

// cache is the size of the caches and state of a layer, for kv.Sequences sequences.
func cache(l *arch.Layer, kv arch.KV, f tensor.Format) (int64, error) {
	n, err := l.KVBytes(kv, f)
	if err != nil {
		return 0, err
	}
	state, err := l.StateBytes(kv)
	return add(n, state), err
}

// ranges writes numbers as people do: "0-4, 6-10, 12"; with more than three parts, how many there are.
func ranges(numbers []string) string {
	var parts []string
	for i := 0; i < len(numbers); {
		k := i
		for k+1 < len(numbers) && next(numbers[k]) == numbers[k+1] {
			k++
		}
		if k > i {
			parts = append(parts, numbers[i]+"-"+numbers[k])
		} else {
			parts = append(parts, numbers[i])
		}
		i = k + 1
	}
	if len(parts) > 3 {
		return fmt.Sprintf("%s, … (%d)", strings.Join(parts[:2], ", "), len(numbers))
	}
	return strings.Join(parts, ", ")
}

func next(number string) string {
	n := 0
	fmt.Sscan(number, &n)
	return fmt.Sprint(n + 1)
}
