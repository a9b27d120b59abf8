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
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/tensor"
)

// Request holds everything that a resolution depends on.
type Request struct {
	Header    arch.Header
	Profile   Profile
	Platform  Platform
	Kernels   tensor.Kernels
	Overrides []Override
	Unused    []string // tensors that the model does not read
	Needs     []Need   // the KV cache, the slab, scratch: what the model needs besides its weights
}

// Override replaces a decision for the tensors (and needs) whose name matches Pattern, a glob as in path.Match where *
// does not stop at dots; the pattern "*" is a uniform override. Overrides with a pattern other than "*" take precedence
// over uniform ones, later over earlier ones, and all of them over the resolver and a strict profile.
type Override struct {
	Pattern string
	Form    string // "keep", or the dense type to dequantize to: "f32", "f16", "bf16"; "" does not override the form
	Place   string // "heap", "offheap", "mapped"; "" does not override the placement
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
	tensors := q.Header.Tensors()
	r := &Resolution{Profile: q.Profile, byName: make(map[string]int, len(tensors))}
	tied := !slices.ContainsFunc(tensors, func(t arch.TensorInfo) bool { return t.Name == tensor.IDOf(tensor.Output, -1).String() })
	for _, t := range tensors {
		w := Weight{Name: t.Name, Encoding: t.Encoding, Shape: t.Shape, Bytes: t.Bytes}
		d := Decision{Name: t.Name, Stored: t.Encoding, IsWeight: true}
		if id, known := tensor.ParseID(t.Name); known {
			d.Role, w.Role = id.Role.String(), id.Role
			w.Use = UseOf(id, tied)
		}
		if slices.Contains(q.Unused, t.Name) {
			w.Use = 0
		}
		form, place := q.override(t.Name)
		var err error
		if d.Form, err = formed(w, form, q); err != nil {
			return nil, err
		}
		if d.Form.Action == Skip {
			d.Reason = d.Form.Reason
		} else {
			need := Need{Name: t.Name, Bytes: d.Form.Bytes, Scope: tensor.Model, Map: d.Form.Map, FileBytes: d.Form.Map}
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
		var err error
		if d.Spec, err = placed(n, place, q); err != nil {
			return nil, err
		}
		d.Reason = d.Spec.Reason
		r.add(d)
	}
	for _, o := range q.Overrides {
		if !slices.ContainsFunc(r.Decisions, func(d Decision) bool { ok, _ := path.Match(o.Pattern, d.Name); return ok }) {
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

// Explain writes one line with the reason for every decision, then the totals. The text is stable.
func (r *Resolution) Explain(w io.Writer) error {
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
		return fmt.Errorf("%w: form %q for %q, want keep, f32, f16 or bf16", ErrOverride, o.Form, o.Pattern)
	}
	if _, ok := placeNames[strings.ToLower(o.Place)]; !ok {
		return fmt.Errorf("%w: placement %q for %q, want heap, offheap or mapped", ErrOverride, o.Place, o.Pattern)
	}
	return nil
}

var formNames = map[string]tensor.Encoding{"": 0, "keep": 0, "f32": tensor.EncF32, "f16": tensor.EncF16, "bf16": tensor.EncBF16}
var placeNames = map[string]tensor.Domain{"": 0, "heap": tensor.Heap, "offheap": tensor.OffHeap, "mapped": tensor.Mapped}

// override returns the form and placement that overrides demand of a name, "" when none does.
func (q Request) override(name string) (form, place string) {
	for _, uniform := range []bool{true, false} { // per-tensor overrides come last and win
		for _, o := range q.Overrides {
			if (o.Pattern == "*") != uniform {
				continue
			}
			if ok, err := path.Match(o.Pattern, name); err != nil || !ok {
				continue
			}
			if o.Form != "" {
				form = strings.ToLower(o.Form)
			}
			if o.Place != "" {
				place = strings.ToLower(o.Place)
			}
		}
	}
	return form, place
}

// formed applies an override to the form of a weight. Dense ops read F32 and nothing else, so overrides
// are about matrices: operands of dense ops stay out of them.
func formed(w Weight, override string, q Request) (WeightForm, error) {
	if override == "" || w.Use == 0 || w.Use&Elementwise != 0 {
		return Form(w, q.Profile, q.Kernels)
	}
	if err := tensor.FormatOf(w.Encoding).Check(); err != nil {
		return WeightForm{}, fmt.Errorf("resolver: tensor %q: %w", w.Name, err)
	}
	to := formNames[override]
	if override != "keep" && to != w.Encoding {
		reason := "override"
		if to == tensor.EncF16 {
			reason += ", refused at load when a value exceeds 65504"
		}
		return dequantize(w, to, reason)
	}
	if w.Use&Multiplied != 0 {
		if _, found := best(q.Kernels, tensor.OpMatMulT, w.Encoding); !found {
			return WeightForm{}, fmt.Errorf("%w: tensor %q cannot stay %s: no matmul_t kernel reads it", ErrOverride, w.Name, w.Encoding)
		}
	}
	return WeightForm{Encoding: w.Encoding, Map: true, Bytes: w.Bytes, Reason: "override"}, nil
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
