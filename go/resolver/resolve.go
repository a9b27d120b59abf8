package resolver

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/tensor"
)

// Request holds everything that a resolution depends on.
type Request struct {
	Header    arch.Header
	Profile   Profile
	Platform  Platform
	Kernels   tensor.Kernels // all rows of the kernel table
	Processor string         // skeep.Processor(): a column of the table of gains; others count as unknown
	Available int64          // bytes of memory that can be had now; 0: unknown
	Exact     bool           // products take F32 activations
	Overrides []Override
	Unused    []string // tensors that the model does not read
	Needs     []Need   // the KV cache, the slab, scratch: what the model needs besides its weights
}

// Override replaces a decision for the tensors (and needs) whose name matches Pattern, a glob as in path.Match where *
// does not stop at dots; the pattern "*" is a uniform override. Overrides with a pattern other than "*" take precedence
// over uniform ones, later over earlier ones, and all of them over the resolver and a strict profile.
type Override struct {
	Pattern string
	// Form is one of:
	//   - "stored": the order of the file. Weights are private copies in feed order only if something else asks for it.
	//   - "feed": the order that the kernel is fastest from, whatever the profile and the memory. With a pattern that has
	//     wildcards, weights that gain nothing by it stay as stored; with a name, such a weight is an error.
	//   - "keep": packed, in the order that the resolver chooses; an error if no kernel reads the encoding.
	//   - "f32", "f16", "bf16": the dense type to dequantize to.
	//   - "": the form is not overridden.
	Form  string
	Place string // "heap", "offheap", "mapped"; "" does not override the placement
}

// DenseF32OnHeap returns overrides that dequantize every tensor to F32 on the Go heap.
func DenseF32OnHeap() []Override { return []Override{{Pattern: "*", Form: "f32", Place: "heap"}} }

// ErrOverride is wrapped by every error about an override.
var ErrOverride = errors.New("resolver: impossible override")

// Decision is the resolved form and placement of one tensor or need.
type Decision struct {
	Name     string // tensor name, or the need's
	Role     string // as GGUF names it; "kv", "slab", … for needs, "" when the name has none
	Stored   tensor.Encoding
	Use      Use        // of a weight
	Form     WeightForm // for needs: bytes only
	Spec     tensor.AllocationSpec
	Reason   string // of form and placement together
	IsWeight bool
}

// Resolution is the result of Resolve: a decision for every tensor of the header, in file order, followed by one for
// each need. It is immutable.
type Resolution struct {
	Profile   Profile
	Decisions []Decision
	Truncated error // says that the file is shorter than its header requires, if that was accepted; else nil
	byName    map[string]int
}

// BudgetError says that a model exceeds the budget of a strict profile. Nothing was loaded.
type BudgetError struct {
	Profile string
	Total   int64
	Budget  int64
	Largest string // the largest tensor or need
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("resolver: profile %s allows %s, but the model needs %s (the largest item is %s)",
		shown.Name(e.Profile), Size(e.Budget), Size(e.Total), shown.Name(e.Largest))
}

// uses says what models do with the tensor of a role; roles that are not listed are elementwise.
var uses = map[tensor.Role]Use{
	tensor.TokenEmbed: Gathered,
	tensor.Output:     Multiplied,
	tensor.AttnQ:      Multiplied, tensor.AttnK: Multiplied, tensor.AttnV: Multiplied, tensor.AttnQKV: Multiplied,
	tensor.AttnOutput: Multiplied, tensor.AttnGate: Multiplied,
	tensor.FFNGate: Multiplied, tensor.FFNUp: Multiplied, tensor.FFNDown: Multiplied,
	tensor.RouterGate: Multiplied, tensor.GateExperts: Multiplied, tensor.UpExperts: Multiplied,
	tensor.DownExperts: Multiplied, tensor.GateUpExperts: Multiplied, tensor.SharedRouterGate: Multiplied,
	tensor.SharedGate: Multiplied, tensor.SharedUp: Multiplied, tensor.SharedDown: Multiplied,
}

// UseOf returns what a model does with the tensor id. tied says that the embedding table is also the output head.
func UseOf(id tensor.ID, tied bool) Use {
	if id.Kind == tensor.Bias {
		return Elementwise
	}
	use, listed := uses[id.Role]
	if !listed {
		return Elementwise
	}
	if id.Role == tensor.TokenEmbed && tied {
		use |= Multiplied
	}
	return use
}

// Resolve decides the form and placement of every tensor and need. It reads only the header. Errors are *RefusedError,
// *BudgetError, ErrOverride, *tensor.EncodingError and *tensor.ShapeError; each names the tensor.
func Resolve(q Request) (*Resolution, error) {
	if err := q.Profile.check(); err != nil {
		return nil, err
	}
	for _, o := range q.Overrides {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	if q.Header == nil {
		return nil, argument.Nil("resolver: resolve", "header")
	}
	tensors := q.Header.Tensors()
	r := &Resolution{Profile: q.Profile, byName: make(map[string]int, len(tensors))}
	tied := !slices.ContainsFunc(tensors, func(t arch.TensorInfo) bool { return t.Name == tensor.IDOf(tensor.Output, -1).String() })
	weights := make([]Weight, len(tensors))
	for i, t := range tensors {
		w := Weight{Name: t.Name, Encoding: t.Encoding, Shape: t.Shape, Bytes: t.Bytes}
		if id, known := tensor.ParseID(t.Name); known {
			w.Role, w.Use = id.Role, UseOf(id, tied)
		}
		if slices.Contains(q.Unused, t.Name) {
			w.Use = 0
		}
		weights[i] = w
	}
	forms, err := q.forms(weights)
	if err != nil {
		return nil, err
	}
	for i, w := range weights {
		d := Decision{Name: w.Name, Stored: w.Encoding, Use: w.Use, Form: forms[i], IsWeight: true}
		if id, known := tensor.ParseID(w.Name); known {
			d.Role = id.Role.String()
		}
		if d.Form.Action == Skip {
			d.Reason = d.Form.Reason
		} else {
			_, place := q.override(w.Name)
			need := Need{Name: w.Name, Bytes: d.Form.Bytes, Scope: tensor.Model, Map: d.Form.Map, FileBytes: d.Form.Map}
			if d.Spec, err = placed(need, place, q); err != nil {
				return nil, err
			}
			d.Reason = d.Form.Reason + "; " + d.Spec.Reason
		}
		r.add(d)
	}
	for _, n := range q.Needs {
		_, place := q.override(n.Name)
		d := Decision{Name: n.Name, Role: n.Name, Form: WeightForm{Bytes: n.Bytes}}
		if d.Spec, err = placed(n, place, q); err != nil {
			return nil, err
		}
		d.Reason = d.Spec.Reason
		r.add(d)
	}
	for _, o := range q.Overrides {
		if !slices.ContainsFunc(r.Decisions, func(d Decision) bool { return (d.IsWeight || o.Form == "") && o.matches(d.Name) }) {
			return nil, fmt.Errorf("%w: pattern %q matches no tensor", ErrOverride, o.Pattern)
		}
	}
	if total := r.Total(); q.Profile.Strict && q.Profile.Budget > 0 && total > q.Profile.Budget {
		largest := slices.MaxFunc(r.Decisions, func(a, b Decision) int { return cmp.Compare(a.Form.Bytes, b.Form.Bytes) })
		return nil, &BudgetError{Profile: q.Profile.Name, Total: total, Budget: q.Profile.Budget, Largest: largest.Name}
	}
	return r, nil
}

func (r *Resolution) add(d Decision) {
	r.byName[d.Name] = len(r.Decisions)
	r.Decisions = append(r.Decisions, d)
}

// Decision finds the decision for a tensor or need by name.
func (r *Resolution) Decision(name string) (Decision, bool) {
	i, ok := r.byName[name]
	if !ok {
		return Decision{}, false
	}
	return r.Decisions[i], true
}

// Total is the bytes of all decisions, mapped pages included.
func (r *Resolution) Total() (sum int64) {
	for _, d := range r.Decisions {
		sum += d.Form.Bytes
	}
	return sum
}

// In sums the bytes that will live in a domain.
func (r *Resolution) In(domain tensor.Domain) (sum int64) {
	for _, d := range r.Decisions {
		if d.Form.Action != Skip && d.Spec.Domain == domain {
			sum += d.Form.Bytes
		}
	}
	return sum
}

// Faster says what the override '*=feed' would gain where weights stay as stored: how many times as fast all products
// of one token would be, and how many bytes of private memory that takes. It returns 1 and 0 if that is not worthwhile,
// or would change nothing because other overrides settle the form.
func (r *Resolution) Faster() (ratio float64, bytes int64) {
	now, then := 0.0, 0.0
	for _, d := range r.Decisions {
		if d.Use&Multiplied == 0 {
			continue
		}
		n := float64(d.Form.Bytes)
		now += n
		if d.Form.Gain >= worthwhile && !d.Form.Reordered() {
			bytes += d.Form.Bytes
			n /= d.Form.Gain
		}
		then += n
	}
	if bytes == 0 || now/then < worthwhile {
		return 1, 0
	}
	return now / then, bytes
}

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
	_, err := io.WriteString(w, b.String())
	return err
}

// Check returns an error that wraps ErrOverride if the override is invalid for every model: a malformed pattern, or an
// unknown form or placement.
func (o Override) Check() error {
	if _, err := path.Match(o.Pattern, ""); err != nil || o.Pattern == "" {
		return fmt.Errorf("%w: pattern %q is malformed", ErrOverride, o.Pattern)
	}
	if _, ok := formNames[strings.ToLower(o.Form)]; !ok {
		return fmt.Errorf("%w: form %q for %q, want stored, feed, keep, f32, f16 or bf16", ErrOverride, o.Form, o.Pattern)
	}
	if _, ok := placeNames[strings.ToLower(o.Place)]; !ok {
		return fmt.Errorf("%w: placement %q for %q, want heap, offheap or mapped", ErrOverride, o.Place, o.Pattern)
	}
	return nil
}

// formNames are the forms that overrides know, with the encoding of those that are dense.
var formNames = map[string]tensor.Encoding{"": 0, "stored": 0, "feed": 0, "keep": 0, "f32": tensor.EncF32, "f16": tensor.EncF16, "bf16": tensor.EncBF16}
var placeNames = map[string]tensor.Domain{"": 0, "heap": tensor.Heap, "offheap": tensor.OffHeap, "mapped": tensor.Mapped}

// matches reports whether the override is for a tensor or need of this name.
func (o Override) matches(name string) bool {
	ok, err := path.Match(o.Pattern, name)
	return ok && err == nil
}

// override returns what overrides demand of a name: the form, with the pattern that has it, and the placement, in
// lower case, "" when none does.
func (q *Request) override(name string) (form Override, place string) {
	for _, uniform := range []bool{true, false} { // per-tensor overrides come last and win
		for _, o := range q.Overrides {
			if (o.Pattern == "*") != uniform || !o.matches(name) {
				continue
			}
			if o.Form != "" {
				form = Override{Pattern: o.Pattern, Form: strings.ToLower(o.Form)}
			}
			if o.Place != "" {
				place = strings.ToLower(o.Place)
			}
		}
	}
	return form, place
}

// forms decides the form of every weight. The choice between the orders is one for the whole model, except for weights
// with an override: feed order if the profile is not strict and twice the bytes of the re-ordered weights are available.
func (q *Request) forms(weights []Weight) ([]WeightForm, error) {
	forms := make([]WeightForm, len(weights))
	private := int64(0) // bytes of weights in feed order
	for i, w := range weights {
		var err error
		if forms[i], err = q.formed(w, ""); err != nil {
			return nil, err
		}
		if forms[i].Reordered() {
			private += forms[i].Bytes
		}
	}
	why := q.keeps(private)
	if why == "" {
		return forms, nil
	}
	for i, w := range weights {
		if forms[i].Reordered() {
			var err error
			if forms[i], err = q.formed(w, why); err != nil {
				return nil, err
			}
		}
	}
	return forms, nil
}

// keeps says why all weights stay as stored although feed order, with private copies of so many bytes, is faster; ""
// when they do not.
func (q *Request) keeps(private int64) string {
	available := q.Available
	if q.Profile.Budget > 0 {
		available = min(available, q.Profile.Budget)
	}
	switch {
	case private == 0:
	case q.Profile.Strict:
		return "profile " + shown.Name(q.Profile.Name) + " is strict"
	case available == 0:
		return "how much memory is available is unknown"
	case private > available/2:
		return fmt.Sprintf("the copies take %s of %s available, which is more than half", Size(private), Size(available))
	}
	return ""
}

// formed is the form of a weight as an override demands it, or the resolver's own. Dense ops read F32 and nothing else,
// so overrides are about matrices: operands of dense ops stay out of them. asStored is as for form.
func (q *Request) formed(w Weight, asStored string) (f WeightForm, err error) {
	o, place := q.override(w.Name)
	if place == "mapped" || o.Form != "" && o.Pattern != "*" {
		defer func() { f.Gain = 0 }() // settled
	}
	named := !strings.ContainsAny(o.Pattern, `*?[\`)
	if place == "mapped" && asStored == "" {
		asStored = "an override has it mapped"
	}
	if o.Form == "" || w.Use == 0 || w.Use&Elementwise != 0 && !(o.Form == "feed" && named) {
		return q.form(w, asStored)
	}
	if err := tensor.FormatOf(w.Encoding).Check(); err != nil {
		return WeightForm{}, fmt.Errorf("resolver: tensor %q: %w", w.Name, err)
	}
	r := q.readers(w)
	cannot := func(format string, args ...any) (WeightForm, error) {
		return WeightForm{}, fmt.Errorf("%w: tensor %q cannot %w", ErrOverride, w.Name, fmt.Errorf(format, args...))
	}
	switch {
	case o.Form == "feed" && (r.feed == nil || r.missing != 0):
		if named {
			return cannot("be in feed order: no matmul_t kernel reads %s so", w.Encoding)
		}
	case o.Form == "feed" && !named && (w.Use&Multiplied == 0 || !r.fills(w)):
		// only products gain by the order
	case o.Form == "feed":
		f := WeightForm{Encoding: w.Encoding, Order: r.feed.Order, Bytes: w.Bytes, Gain: r.gain}
		f.Reason = fmt.Sprintf("override: %s kernel reads it in order %s", r.feed.ISA, r.feed.Order)
		return f.gathered(w), nil
	case o.Form == "stored" && r.stored == nil && r.missing == 0 && w.Use&Multiplied != 0:
		return cannot("stay as stored: no matmul_t kernel reads %s so", w.Encoding)
	case o.Form == "stored":
		asStored = "an override keeps it as stored"
	case o.Form != "keep" && formNames[o.Form] != w.Encoding:
		reason := "override"
		if formNames[o.Form] == tensor.EncF16 {
			reason += ", refused at load when a value exceeds 65504"
		}
		return dequantize(w, formNames[o.Form], reason)
	case r.missing != 0:
		return cannot("stay %s: no %s kernel reads it", w.Encoding, r.missing)
	}
	return q.form(w, asStored)
}

func placed(n Need, override string, q Request) (tensor.AllocationSpec, error) {
	spec := Place(n, q.Profile, q.Platform)
	if override == "" {
		return spec, nil
	}
	domain := placeNames[override]
	switch {
	case domain == tensor.Mapped && !(n.Map && n.FileBytes):
		return spec, fmt.Errorf("%w: %q cannot be mapped: its bytes are not the file's", ErrOverride, n.Name)
	case domain == tensor.Mapped && !q.Platform.CanMap:
		return spec, fmt.Errorf("%w: %q cannot be mapped: %s", ErrOverride, n.Name, q.Platform.CannotWhy)
	}
	if domain != tensor.Mapped {
		spec.Alignment = 64
	}
	spec.Domain, spec.Reason = domain, "override"
	return spec, nil
}
