package resolver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skeep-project/skeep/go/tensor"
)

// Suggestion is a change of a plan that makes it smaller. It was verified by planning again.
type Suggestion struct {
	Change  string // as a flag of the command
	Saves   int64  // bytes of what the verdict is about: of private memory or, if that fits, of both pools
	Cost    string // what is lost
	Verdict Verdict
	Options PlanOptions // of the plan with the change
}

// Suggest lists what would make a model that does not fit smaller, in order of least harm. Each is a change by itself. It
// is empty for a plan that fits.
func (p *Plan) Suggest() ([]Suggestion, error) {
	if p.Verdict == Fits {
		return nil, nil
	}
	var all []Suggestion
	for _, c := range candidates {
		best, err := p.try(c)
		if err != nil {
			return nil, err
		}
		if best != nil {
			all = append(all, *best)
		}
	}
	together, err := p.together()
	if together != nil {
		all = append(all, *together)
	}
	return all, err
}

// together is what changes reach that are made one after another, each beside those before it, where it takes several; nil
// when all of them are not enough.
func (p *Plan) together() (*Suggestion, error) {
	then := p
	var changes, costs []string
	for _, c := range candidates {
		s, err := then.try(c)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		changes, costs = append(changes, s.Change), append(costs, s.Cost)
		if then, err = s.Options.plan(p.header); err != nil {
			return nil, err
		}
		if then.Verdict < p.Verdict {
			break
		}
	}
	if len(changes) < 2 || then.Verdict >= p.Verdict {
		return nil, nil
	}
	return &Suggestion{Change: strings.Join(changes, " "), Saves: p.counted(p) - p.counted(then), Cost: strings.Join(costs, ", "), Verdict: then.Verdict,
		Options: then.options}, nil
}

// candidate is a kind of change: nth gives the steps of it, from the smallest on, until there are no more.
type candidate struct {
	cost string
	nth  func(p *Plan, n int) (o PlanOptions, change string, ok bool)
}

// candidates are in order of harm: speed of a start, speed of a prompt, speed of all, precision, length.
var candidates = []candidate{
	{"slower by as much as feed order gains", func(p *Plan, n int) (PlanOptions, string, bool) {
		o := p.options
		o.Overrides = []Override{{Pattern: "*", Form: "stored"}}
		for _, other := range p.options.Overrides {
			if other.Pattern != "*" || other.Form == "" {
				o.Overrides = append(o.Overrides, other)
			}
		}
		return o, "--form '*=stored'", n == 0
	}},
	{"the prompt is read in more steps", func(p *Plan, n int) (PlanOptions, string, bool) {
		o := p.options
		o.Chunk = p.KV.Chunk >> (n + 1)
		return o, fmt.Sprintf("--chunk %d", o.Chunk), o.Chunk >= 16
	}},
	{"keys and values are rounded to 16 bits", func(p *Plan, n int) (PlanOptions, string, bool) {
		o, f16 := p.options, tensor.EncF16
		o.KV = &f16
		return o, "--kv f16", n == 0 && p.KVFormat.Encoding == tensor.EncF32
	}},
	{"fewer sessions at the same time", func(p *Plan, n int) (PlanOptions, string, bool) {
		o := p.options
		o.Sequences = p.Sequences >> (n + 1)
		return o, fmt.Sprintf("--parallel %d", o.Sequences), o.Sequences >= 1
	}},
	{"shorter texts", func(p *Plan, n int) (PlanOptions, string, bool) {
		o := p.options
		o.Context = p.KV.Context >> (n + 1)
		return o, fmt.Sprintf("--ctx %d", o.Context), o.Context >= 256
	}},
}

// try plans the steps of a candidate until one fits: the last one that saved something, nil when none does.
func (p *Plan) try(c candidate) (best *Suggestion, err error) {
	for n := 0; ; n++ {
		o, change, ok := c.nth(p, n)
		if !ok {
			return best, nil
		}
		then, err := o.plan(p.header)
		if errors.Is(err, ErrOverride) { // it stands against what the caller demands
			return best, nil
		}
		if err != nil {
			return nil, err
		}
		saves := p.counted(p) - p.counted(then)
		if saves <= 0 && then.Verdict >= p.Verdict {
			return best, nil
		}
		best = &Suggestion{Change: change, Saves: saves, Cost: c.cost, Verdict: then.Verdict, Options: o}
		if then.Verdict < p.Verdict {
			return best, nil
		}
	}
}

// counted is what of a plan is too much in this one.
func (p *Plan) counted(of *Plan) int64 {
	if p.Verdict == No && !p.options.Profile.CountMapped {
		return of.Private
	}
	return of.Total()
}
