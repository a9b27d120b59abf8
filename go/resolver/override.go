package resolver

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/tensor"
)

// Override replaces a decision for the tensors (and needs) whose name matches Pattern, a glob as in path.Match where *
// does not stop at dots; the pattern "*" is a uniform override. Overrides with a pattern other than "*" take precedence
// over uniform ones, later over earlier ones, and all of them over the resolver and a strict profile. An override that
// matches nothing, or that others beat wherever it matches, is an error.
type Override struct {
	Pattern string
	// Form is one word about the elements, one about the order of blocks, or both, joined by "+": "q4_0+feed". "" does not
	// override the form. A pattern without wildcards demands: what is not possible is an error. A pattern with wildcards
	// asks: weights for which it is not possible, because rows are not whole blocks or no kernel has the order, get the
	// form that the resolver chooses.
	//
	// Elements:
	//   - "keep": as in the file; an error if no kernel reads the encoding.
	//   - "f32", "f16", "bf16": the dense type to dequantize to.
	//   - "q4_0" or another packed encoding: the encoding to requantize to, for which there must be an encoder and kernels.
	//
	// Order:
	//   - "stored": rows one after another. Weights of the file are private copies only if something else asks for it.
	//   - "feed": the order that the kernel is fastest from, whatever the profile and the memory.
	Form  string
	Place string // "heap", "offheap", "mapped"; "" does not override the placement
}

// DenseF32OnHeap returns overrides that dequantize every tensor to F32 on the Go heap.
func DenseF32OnHeap() []Override { return []Override{{Pattern: "*", Form: "f32", Place: "heap"}} }

// ErrOverride is wrapped by every error about an override.
var ErrOverride = errors.New("resolver: impossible override")

// Check returns an error that wraps ErrOverride if the override is invalid for every model: a malformed pattern, or an
// unknown form or placement.
func (o Override) Check() error {
	if _, err := path.Match(o.Pattern, ""); err != nil || o.Pattern == "" {
		return fmt.Errorf("%w: pattern %q is malformed", ErrOverride, o.Pattern)
	}
	if _, err := o.demand(); err != nil {
		return fmt.Errorf("%w: form %q for %q: %w", ErrOverride, o.Form, o.Pattern, err)
	}
	if _, ok := placeNames[strings.ToLower(o.Place)]; !ok {
		return fmt.Errorf("%w: placement %q for %q, want heap, offheap or mapped", ErrOverride, o.Place, o.Pattern)
	}
	return nil
}

var placeNames = map[string]tensor.Domain{"": 0, "heap": tensor.Heap, "offheap": tensor.OffHeap, "mapped": tensor.Mapped}

// demand is what an override wants of a form: nothing, in its zero value.
type demand struct {
	elements bool            // says something about the elements
	keep     bool            // they stay as in the file, else
	to       tensor.Encoding // they are converted
	order    string          // "stored", "feed" or ""
	uniform  bool            // for all weights
	named    bool            // for one weight, by its whole name
}

// demand reads the words of Form.
func (o Override) demand() (d demand, err error) {
	d.uniform, d.named = o.Pattern == "*", !strings.ContainsAny(o.Pattern, `*?[\`)
	if o.Form == "" {
		return d, nil
	}
	for word := range strings.SplitSeq(strings.ToLower(o.Form), "+") {
		switch word {
		case "stored", "feed":
			if d.order != "" {
				return d, errors.New("two orders")
			}
			d.order = word
			continue
		}
		if d.elements {
			return d, errors.New("two words about elements")
		}
		d.elements, d.keep = true, word == "keep"
		if d.keep {
			continue
		}
		d.to, err = tensor.ParseEncoding(word)
		info, _ := d.to.Info()
		if err != nil || info.Integer || info.Activation || info.Retired {
			return d, fmt.Errorf("%q is not keep, stored, feed, f32, f16, bf16 or a packed encoding such as q4_0", word)
		}
	}
	return d, nil
}

// matches reports whether the override is for a tensor or need of this name.
func (o Override) matches(name string) bool {
	ok, err := path.Match(o.Pattern, name)
	return ok && err == nil
}

// override returns the indexes of the overrides that decide the form and the place of a name; -1 when none does.
func (q *Request) override(name string) (form, place int) {
	form, place = -1, -1
	for _, uniform := range []bool{true, false} { // per-tensor overrides come last and win
		for i, o := range q.Overrides {
			if (o.Pattern == "*") != uniform || !o.matches(name) {
				continue
			}
			if o.Form != "" {
				form = i
			}
			if o.Place != "" {
				place = i
			}
		}
	}
	return form, place
}

// demanded is what overrides want of a weight's form, and its place in lower case; "" when none does.
func (q *Request) demanded(name string) (d demand, place string) {
	i, k := q.override(name)
	if i >= 0 {
		d, _ = q.Overrides[i].demand() // Resolve has checked it
	}
	if k >= 0 {
		place = strings.ToLower(q.Overrides[k].Place)
	}
	return d, place
}

// effective returns an error for the first override that decides nothing.
func (q *Request) effective(decisions []Decision) error {
	const nothing, beaten = "matches no tensor", "changes nothing: other overrides beat it on every tensor that it matches"
	why := slices.Repeat([]string{nothing}, len(q.Overrides))
	for _, d := range decisions {
		form, place := q.override(d.Name)
		for i, o := range q.Overrides {
			switch {
			case place == i, form == i && d.IsWeight:
				why[i] = ""
			case why[i] == nothing && o.matches(d.Name) && (d.IsWeight || o.Form == ""):
				why[i] = beaten
			}
		}
	}
	for i, o := range q.Overrides {
		if why[i] != "" && (o.Form != "" || o.Place != "") {
			return fmt.Errorf("%w: pattern %q %s", ErrOverride, o.Pattern, why[i])
		}
	}
	return nil
}

// formed is the form of a weight as an override demands it, or the resolver's own. Dense ops read F32 and nothing else,
// so overrides are about matrices: operands of dense ops stay out of them. asStored is as for form.
func (q *Request) formed(w Weight, asStored string) (f WeightForm, err error) {
	d, place := q.demanded(w.Name)
	if place == "mapped" || d != (demand{}) && !d.uniform {
		defer func() { f.Gain = 0 }() // settled
	}
	if place == "mapped" && asStored == "" {
		asStored = "an override has it mapped"
	}
	cannot := func(format string, args ...any) (WeightForm, error) {
		return WeightForm{}, fmt.Errorf("%w: tensor %q cannot %w", ErrOverride, w.Name, fmt.Errorf(format, args...))
	}
	if w.Use&Elementwise != 0 && d.named && (d.order == "feed" || d.elements && !d.keep && d.to != tensor.EncF32) {
		what := d.to.String()
		if d.order == "feed" {
			what = "in feed order"
		}
		return cannot("be %s: its ops read only F32", what)
	}
	if w.Use == 0 || w.Use&Elementwise != 0 || !d.elements && d.order == "" {
		return q.form(w, asStored)
	}
	if err := tensor.FormatOf(w.Encoding).Check(); err != nil {
		return WeightForm{}, fmt.Errorf("resolver: tensor %q: %w", w.Name, err)
	}
	f, as := WeightForm{Encoding: w.Encoding, Bytes: w.Bytes, Residency: FilePages}, w
	if d.elements && !d.keep && d.to != w.Encoding {
		reason := "override"
		if d.to == tensor.EncF16 {
			reason += ", refused at load when a value exceeds 65504"
		}
		if _, found := q.Kernels.Find(tensor.OpEncode, d.to, tensor.AnyEncoding, tensor.Order{}); packed(d.to) && !found {
			return cannot("be requantized: %s has no encoder", d.to)
		}
		if f, err = converted(w, d.to, reason); err != nil {
			if !d.named {
				f, err = q.form(w, asStored)
				return f.because("the override is not possible: rows are not whole blocks of " + d.to.String()), err
			}
			return cannot("be %s: %w", d.to, err)
		}
		as.Encoding, as.Bytes = f.Encoding, f.Bytes
		asStored = "" // the copy is made anyway
	}
	r := q.readers(as)
	switch {
	case r.missing != 0 && !d.elements && !(d.named && d.order == "feed"):
		return q.form(w, asStored)
	case r.missing != 0 && !(d.order == "feed" && d.named):
		return cannot("be %s: no %s kernel reads it", as.Encoding, r.missing)
	case d.order == "feed" && (r.feed == nil || r.missing != 0):
		if d.named {
			return cannot("be in feed order: no matmul_t kernel reads %s so", as.Encoding)
		}
	case d.order == "feed" && !d.named && (w.Use&Multiplied == 0 || !r.fills(w)):
		// only products gain by the order
	case d.order == "feed":
		f = q.fed(f, w, r)
		f.Gain = r.gain
		if f.Action == Keep {
			f = f.because("override")
		}
		f.Reason += fmt.Sprintf(": %s kernel reads it in order %s", r.feed.ISA, r.feed.Order)
		return f.gathered(w), nil
	case d.order == "stored" && r.stored == nil && w.Use&Multiplied != 0:
		return cannot("stay as stored: no matmul_t kernel reads %s so", as.Encoding)
	case d.order == "stored":
		asStored = "an override keeps it as stored"
	}
	f = q.ordered(f, w, r, asStored)
	if f.Action != Keep {
		f.Gain = 0
	}
	return f, nil
}

// placed is where a weight or need is kept, as an override demands it or Place decides. pages are those that it may be.
func placed(n Need, override string, p Profile, pages Platform) (tensor.AllocationSpec, error) {
	spec := Place(n, p, pages)
	if override == "" {
		return spec, nil
	}
	domain := placeNames[override]
	switch {
	case domain == tensor.Mapped && !(n.Map && n.FileBytes):
		return spec, fmt.Errorf("%w: %q cannot be mapped: its bytes are not the file's", ErrOverride, n.Name)
	case domain == tensor.Mapped && !pages.CanMap:
		return spec, fmt.Errorf("%w: %q cannot be mapped: %s", ErrOverride, n.Name, pages.CannotWhy)
	}
	if domain != tensor.Mapped {
		spec.Alignment = 64
	}
	spec.Domain, spec.Reason = domain, "override"
	return spec, nil
}
