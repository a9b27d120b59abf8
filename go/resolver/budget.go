package resolver

import (
	"fmt"

	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/tensor"
)

// BudgetError says that a model exceeds the budget of a strict profile. Nothing was loaded.
type BudgetError struct {
	Profile string
	Budget  int64
	Private int64  // bytes that would belong to the process alone
	Mapped  int64  // bytes of file pages
	Counted int64  // what the profile counts of both, without weights that overrides decide
	Largest string // the largest of these: "weights", the name of a need, or "process" for what a process needs beside
	Bytes   int64  // of that
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("resolver: profile %s allows %s, but the model needs %s, with %s for %s (in all %s of private memory and %s of file pages)",
		shown.Name(e.Profile), Size(e.Budget), Size(e.Counted), Size(e.Bytes), shown.Name(e.Largest), Size(e.Private), Size(e.Mapped))
}

// Borrowed reports whether a weight is the bytes of a model that was in memory before, used in place.
func (d Decision) Borrowed() bool {
	return d.IsWeight && d.Form.Residency == FilePages && d.Spec.Domain == tensor.Heap && d.Spec.Alignment == 1
}

// Private reports whether the bytes of a decision belong to the process alone: they are neither file pages nor borrowed.
func (d Decision) Private() bool {
	return d.Form.Action != Skip && d.Spec.Domain != tensor.Mapped && !d.Borrowed()
}

// Total is the bytes of all decisions, mapped pages included.
func (r *Resolution) Total() int64 { return r.sum(func(Decision) bool { return true }) }

// In sums the bytes that will live in a domain.
func (r *Resolution) In(domain tensor.Domain) int64 {
	return r.sum(func(d Decision) bool { return d.Form.Action != Skip && d.Spec.Domain == domain })
}

// Private sums the bytes that will belong to the process alone.
func (r *Resolution) Private() int64 { return r.sum(Decision.Private) }

func (r *Resolution) sum(of func(Decision) bool) (sum int64) {
	for _, d := range r.Decisions {
		if of(d) {
			sum = add(sum, d.Form.Bytes)
		}
	}
	return sum
}

// withinBudget returns a *BudgetError if the profile is strict and its budget is exceeded by what no override decides. It
// notes what overrides allow beyond the profile. beside is what the process needs beside the decisions.
func (r *Resolution) withinBudget(beside int64) error {
	p := r.Profile
	if !p.Strict {
		return nil
	}
	counts := func(d Decision) bool { return d.Private() || p.CountMapped && d.Spec.Domain == tensor.Mapped }
	sums, largest, counted, overridden, dense := map[string]int64{"process": beside}, "process", beside, int64(0), 0
	for _, d := range r.Decisions {
		group := "weights"
		switch {
		case !counts(d):
			continue
		case d.Overridden:
			if overridden += d.Form.Bytes; d.Form.Action == Dequantize {
				dense++
			}
			continue
		case !d.IsWeight:
			group = d.Name
		}
		counted = add(counted, d.Form.Bytes)
		if sums[group] += d.Form.Bytes; sums[group] > sums[largest] {
			largest = group
		}
	}
	if dense > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("profile %s is strict and dequantizes nothing; overrides dequantize %d weights", shown.Name(p.Name), dense))
	}
	switch {
	case p.Budget == 0:
	case counted > p.Budget:
		return &BudgetError{Profile: p.Name, Budget: p.Budget, Private: r.Private() + beside, Mapped: r.In(tensor.Mapped), Counted: counted, Largest: largest, Bytes: sums[largest]}
	case counted+overridden > p.Budget:
		r.Notes = append(r.Notes, fmt.Sprintf("profile %s allows %s; overrides of weights make it %s", shown.Name(p.Name), Size(p.Budget), Size(counted+overridden)))
	}
	return nil
}
