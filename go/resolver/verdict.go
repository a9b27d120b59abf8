package resolver

import (
	"errors"

	"github.com/skeep-project/skeep/go/tensor"
)

// judge compares the pools with what the device has.
func (p *Plan) judge(profile Profile) {
	p.Limit, p.LimitReason = profile.Budget, "budget of profile "+profile.Name
	if p.Available > 0 && (p.Limit == 0 || p.Available < p.Limit) {
		p.Limit, p.LimitReason = p.Available, "available now"
	}
	all := add(p.Private, p.Mapped)
	least := p.Private // what cannot be evicted
	if profile.Strict && profile.CountMapped {
		least = all
	}
	var dense *RefusedError
	switch {
	case errors.As(p.Refused, &dense):
		p.Verdict = No
		p.Missing = max(0, least-p.Limit)
	case p.Limit == 0:
		p.LimitReason = "unknown"
	case least > p.Limit:
		p.Verdict, p.Missing = No, least-p.Limit
	case all > p.Limit:
		p.Verdict, p.Margin = Pages, p.Limit-least
		p.DiskBytes = max(0, p.mappedTouched()-(p.Limit-p.Private))
	default:
		p.Margin = p.Limit - all
	}
}

// mappedTouched is how many bytes of file pages one generated token reads.
func (p *Plan) mappedTouched() (sum int64) {
	for _, t := range p.Terms {
		if !t.Private {
			sum = add(sum, t.Touched)
		}
	}
	return sum
}

// smallest finds the budgets from which the model runs, and fits. What a plan needs depends on its budget in one way:
// re-ordered copies are made only where there is room for twice as much. So with a budget of what it needs without
// these, it has none of these.
func (p *Plan) smallest() error {
	o := p.options
	o.Available, o.Profile.Budget = 1, 1
	least, err := o.plan(p.header)
	if err != nil {
		return err
	}
	if errors.As(least.Refused, new(*RefusedError)) {
		return nil // no budget helps
	}
	p.SmallestFitting = add(least.Private, least.Mapped)
	p.Smallest = least.Private
	if o.Profile.Strict && o.Profile.CountMapped {
		p.Smallest = p.SmallestFitting
	}
	return nil
}

// HeapBytes is the Go heap that the plan expects to be live.
func (p *Plan) HeapBytes() (sum int64) {
	for _, t := range p.Terms {
		if t.Private && t.Domain == tensor.Heap {
			sum = add(sum, t.Bytes)
		}
	}
	return sum
}

// GoMemLimit is what GOMEMLIMIT should be, so that the Go runtime collects garbage before the limit of the plan is
// reached: the limit without memory outside of the Go heap. 0 if the limit is unknown, or leaves less than what is live.
func (p *Plan) GoMemLimit() int64 {
	n := p.Limit - (p.Private - p.HeapBytes())
	if p.Limit == 0 || n < p.HeapBytes() {
		return 0
	}
	return n
}
