package resolver

import (
	"errors"
	"fmt"
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
	Pack      *Pack          // a file that holds blocks in feed order; nil: none
	Overrides []Override
	Unused    []string // tensors that the model does not read
	Needs     []Need   // the KV cache, the slab, scratch: what the model needs besides its weights
	Beside    int64    // bytes that the process needs besides weights and needs: private ones, and mapped ones where the profile counts these
	Foreign   bool     // the architecture is unknown: every tensor counts as used, by its shape
}

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
	// Overridden says that an override had a say in the form or the place of a weight.
	Overridden bool
}

// Resolution is the result of Resolve: a decision for every tensor of the header, in file order, followed by one for
// each need. It is immutable.
type Resolution struct {
	Profile   Profile
	Decisions []Decision
	Notes     []string // what people should know beyond the decisions
	Truncated error    // says that the file is shorter than its header requires, if that was accepted; else nil
	byName    map[string]int
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

// Pack is a file beside a model that holds blocks of its weights in feed order, as far as a resolution must know it: a
// weight that it serves is in feed order without a private copy, so neither memory nor a strict profile stands against
// it. Who opens a model finds the pack, checks that it belongs to the model, sets Request.Pack, and gives the same pack to
// the load, which maps each weight whose form has the residency PackPages. A pack is not used where the profile does not
// map files, nor for weights that an override keeps as stored or places elsewhere.
type Pack struct {
	Name string // for reasons: its path
	// Serves reports whether the pack has a tensor's blocks, unchanged, in an order. It reads no payload.
	Serves func(name string, e tensor.Encoding, o tensor.Order) bool
}

// packed reports whether the pack serves a weight in an order.
func (q *Request) packed(w Weight, o tensor.Order) bool {
	if q.Pack == nil || q.Pack.Serves == nil || !q.Profile.Map {
		return false
	}
	_, place := q.demanded(w.Name)
	return (place == "" || place == "mapped") && q.Pack.Serves(w.Name, w.Encoding, o)
}

// Resolve decides the form and placement of every tensor and need. It reads only the header. Errors are *RefusedError,
// *BudgetError, ErrOverride, *tensor.EncodingError and *tensor.ShapeError; each names the tensor. With the first two, the
// resolution is returned as well: it says what would have been needed, and must not be loaded.
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
	weights := q.weights()
	r := &Resolution{Profile: q.Profile, byName: make(map[string]int, len(weights))}
	forms, refused, err := q.forms(weights)
	if err != nil {
		return nil, err
	}
	for i, w := range weights {
		d := Decision{Name: w.Name, Stored: w.Encoding, Use: w.Use, Form: forms[i], IsWeight: true}
		form, at := q.override(w.Name)
		d.Overridden = w.Use != 0 && (form >= 0 && w.Use&Elementwise == 0 || at >= 0)
		if id, known := tensor.ParseID(w.Name); known {
			d.Role = id.Role.String()
		}
		if d.Form.Action == Skip {
			d.Reason = d.Form.Reason
		} else {
			_, place := q.demanded(w.Name)
			pages := d.Form.Residency != Private
			need := Need{Name: w.Name, Bytes: d.Form.Bytes, Scope: tensor.Model, Map: pages, FileBytes: pages}
			if d.Spec, err = placed(need, place, q.Profile, q.platform(d.Form)); err != nil {
				return nil, err
			}
			d.Reason = d.Form.Reason + "; " + d.Spec.Reason
		}
		r.add(d)
	}
	for _, n := range q.Needs {
		_, place := q.demanded(n.Name)
		d := Decision{Name: n.Name, Role: n.Name, Form: WeightForm{Bytes: n.Bytes}}
		if d.Spec, err = placed(n, place, q.Profile, q.Platform); err != nil {
			return nil, err
		}
		d.Reason = d.Spec.Reason
		r.add(d)
	}
	if err := q.effective(r.Decisions); err != nil {
		return nil, err
	}
	if refused == nil {
		refused = r.withinBudget(q.Beside)
	}
	return r, refused
}

// weights describes the tensors of the header.
func (q *Request) weights() []Weight {
	tensors := q.Header.Tensors()
	tied := !slices.ContainsFunc(tensors, func(t arch.TensorInfo) bool { return t.Name == tensor.IDOf(tensor.Output, -1).String() })
	weights := make([]Weight, len(tensors))
	for i, t := range tensors {
		w := Weight{Name: t.Name, Encoding: t.Encoding, Shape: t.Shape, Bytes: t.Bytes}
		if id, known := tensor.ParseID(t.Name); known {
			w.Role, w.Use = id.Role, UseOf(id, tied)
		}
		if q.Foreign {
			w.Use = foreignUse(w)
		}
		if slices.Contains(q.Unused, t.Name) {
			w.Use = 0
		}
		weights[i] = w
	}
	return weights
}

// integers reports whether some product takes activations in their integer form, by the encodings that overrides demand and
// the file has: the order of blocks does not matter.
func (q *Request) integers(weights []Weight) bool {
	return slices.ContainsFunc(weights, func(w Weight) bool {
		if d, _ := q.demanded(w.Name); d.elements && !d.keep {
			w.Encoding = d.to
		}
		return w.Use&Multiplied != 0 && slices.ContainsFunc(q.Kernels.Orders(tensor.OpMatMulT, w.Encoding), func(o tensor.Order) bool {
			k, found := q.reader(w.Encoding, o)
			return found && k.Activation == tensor.A8
		})
	})
}

// foreignUse is what a model of an unknown architecture does with a weight: matrices multiply, but for the table of
// embeddings, whose use is known; vectors are operands of dense ops.
func foreignUse(w Weight) Use {
	switch {
	case w.Use&(Gathered|Multiplied) != 0:
		return w.Use
	case w.Shape.Rank >= 2 && w.Shape.Dims[w.Shape.Rank-2] > 1 && strings.HasSuffix(w.Name, ".weight"):
		return Multiplied
	}
	return Elementwise
}

// platform is how the pages that a form may be can be accessed.
func (q *Request) platform(f WeightForm) Platform {
	if f.Residency == PackPages {
		return Platform{CanMap: true, File: "the pack " + q.Pack.Name}
	}
	return q.Platform
}

// forms decides the form of every weight. The choice between the orders is one for the whole model, except for weights
// with an override or in a pack: feed order if the profile is not strict and twice the bytes of the copies are available.
// refused is why a strict profile does not take the first weight that it does not take.
func (q *Request) forms(weights []Weight) (forms []WeightForm, refused, err error) {
	forms = make([]WeightForm, len(weights))
	decide := func(i int, asStored string) (err error) {
		forms[i], err = q.formed(weights[i], asStored)
		if errors.As(err, new(*RefusedError)) {
			if refused == nil {
				refused = err
			}
			return nil
		}
		return err
	}
	copies, conversions := int64(0), int64(0)
	for i := range weights {
		if err := decide(i, ""); err != nil {
			return nil, nil, err
		}
		switch f := forms[i]; {
		case f.Copied():
			copies += f.Bytes
		case f.Action == Dequantize, f.Action == Requantize:
			conversions += f.Bytes
		}
	}
	why := q.keeps(copies, conversions)
	if why == "" {
		return forms, refused, nil
	}
	for i := range weights {
		if forms[i].Copied() {
			if err := decide(i, why); err != nil {
				return nil, nil, err
			}
		}
	}
	return forms, refused, nil
}

// keeps says why all weights stay as stored although feed order, with private copies of so many bytes beside what is
// converted, is faster; "" when they do not.
func (q *Request) keeps(copies, conversions int64) string {
	available := q.Available
	if q.Profile.Budget > 0 {
		available = min(available, q.Profile.Budget)
	}
	rest := add(conversions, q.Beside)
	for _, n := range q.Needs {
		rest = add(rest, n.Bytes)
	}
	switch {
	case copies == 0:
	case q.Profile.Strict:
		return "profile " + shown.Name(q.Profile.Name) + " is strict"
	case available == 0:
		return "how much memory is available is unknown"
	case copies > max(0, available-rest)/2:
		return fmt.Sprintf("the copies take %s of %s available, which is more than half", Size(copies), Size(max(0, available-rest)))
	}
	return ""
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
		if d.Form.Gain >= worthwhile && d.Form.Order == (tensor.Order{}) {
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
