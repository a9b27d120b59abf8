package resolver

import (
	"fmt"
	"io"
	"strings"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/tensor"
)

// Explain writes one line with the reason for every decision, then the totals. The text is stable.
func (r *Resolution) Explain(w io.Writer) error {
	if w == nil {
		return argument.Nil("resolver: explain", "writer")
	}
	budget := "no budget"
	if r.Profile.Budget > 0 {
		budget = "budget " + Size(r.Profile.Budget)
	}
	strict := ""
	if r.Profile.Strict {
		strict = ", strict"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "profile %s: %s%s, off-heap from %s\n", r.Profile.Name, budget, strict, Size(r.Profile.Threshold))
	for _, d := range r.Decisions {
		form, place := "", "-"
		if d.IsWeight {
			form = ": " + d.Stored.String() + " -> " + d.Form.String()
		}
		if d.Form.Action != Skip {
			place = d.Spec.Domain.String()
		}
		fmt.Fprintf(&b, "%s%s, %s, %s: %s\n", d.Name, form, place, Size(d.Form.Bytes), d.Reason)
	}
	fmt.Fprintf(&b, "total: mapped %s, off-heap %s, heap %s\n", Size(r.In(tensor.Mapped)), Size(r.In(tensor.OffHeap)), Size(r.In(tensor.Heap)))
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
