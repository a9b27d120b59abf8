package resolver

import (
	"fmt"
	"math"

	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/tensor"
)

// Use says what a model does with a weight; a tied embedding table has two uses.
type Use uint8

// The uses.
const (
	Multiplied  Use = 1 << iota // the weight of a product
	Gathered                    // rows are looked up by id
	Elementwise                 // operands of dense ops: norm weights, biases, rotary factors
)

// Weight describes one tensor, without its bytes.
type Weight struct {
	Name     string
	Role     tensor.Role
	Use      Use // 0: this model does not use it
	Encoding tensor.Encoding
	Shape    tensor.Shape
	Bytes    int64 // as stored
}

// Action is what is done to a weight's elements when it is loaded.
type Action uint8

// The actions.
const (
	Keep       Action = iota // the blocks stay unchanged, possibly in another order
	Dequantize               // decoded once, at load, to a dense type
	Requantize               // encoded once, at load, in another packed encoding
	Skip                     // not loaded: the model does not use it
)

// Residency says whose bytes a weight's can be.
type Residency uint8

// The residencies.
const (
	Private   Residency = iota // a copy that belongs to the process alone
	FilePages                  // those of the model's file, unchanged
	PackPages                  // those of a pack (Request.Pack), which has the blocks in the weight's order
)

// WeightForm is the form in which a weight will be loaded: what becomes of its elements, in which order its blocks are,
// and whose bytes they can be. Place decides its memory separately. A weight has one form, whatever reads it: products,
// and look-ups of its rows.
type WeightForm struct {
	Action    Action
	Encoding  tensor.Encoding
	Order     tensor.Order // as stored (row-major), or the order that the kernel of products is fastest from: feed order
	Residency Residency
	Bytes     int64   // in this form
	Gain      float64 // products of one token in feed order, times as fast as as stored; 0: there is no choice
	Reason    string
}

// Reordered reports whether the weight has the blocks of the file in another order: feed order.
func (f WeightForm) Reordered() bool { return f.Action == Keep && f.Order != tensor.Order{} }

// Copied reports whether the weight is a private copy of the file's blocks in another order.
func (f WeightForm) Copied() bool { return f.Reordered() && f.Residency == Private }

func (f WeightForm) String() string {
	const feed = " in feed order"
	text := f.Encoding.String()
	switch f.Action {
	case Skip:
		return "not loaded"
	case Dequantize:
		return "dequantized to " + text
	case Requantize:
		text = "requantized to " + text
	default:
		if f.Order == (tensor.Order{}) {
			return text + " as stored"
		}
	}
	if f.Order != (tensor.Order{}) {
		text += feed
	}
	return text
}

// RefusedError says that a tensor would have to be dequantized, which a strict profile forbids. Nothing was loaded.
type RefusedError struct {
	Profile  string
	Tensor   string
	Encoding tensor.Encoding
	Multiple float64 // bytes after dequantization over bytes as stored
	Op       string  // the op that has no kernel for the encoding
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("resolver: tensor %q: no %s kernel for %s, and profile %s does not allow dequantization to F32 (%.2f times the stored size)",
		e.Tensor, e.Op, e.Encoding, shown.Name(e.Profile), e.Multiple)
}

// Form decides the form of one weight by itself. A packed weight for which a kernel exists stays packed, in feed order if
// products gain by that; whether memory suffices for all such weights is for Resolve to say. A weight without a kernel is
// dequantized once at load, with the cost stated in Reason, or refused by a strict profile. Form reads only the Profile,
// Kernels, Processor and Exact of q. Errors: *RefusedError, *tensor.EncodingError, *tensor.ShapeError.
func Form(w Weight, q Request) (WeightForm, error) { return q.form(w, "") }

// form is Form; asStored, if there is one, is why a weight is to stay as stored although feed order is faster.
func (q *Request) form(w Weight, asStored string) (WeightForm, error) {
	if w.Use == 0 {
		return WeightForm{Action: Skip, Encoding: w.Encoding, Reason: "this model does not use it"}, nil
	}
	if err := tensor.FormatOf(w.Encoding).Check(); err != nil {
		return WeightForm{}, fmt.Errorf("resolver: tensor %q: %w", w.Name, err)
	}
	f := WeightForm{Encoding: w.Encoding, Bytes: w.Bytes, Residency: FilePages}
	if w.Use&Elementwise != 0 {
		if w.Encoding == tensor.EncF32 {
			f.Reason = "its ops read F32"
			return f, nil
		}
		return converted(w, tensor.EncF32, "its ops read only F32")
	}
	r := q.readers(w)
	if r.missing != 0 {
		return q.unreadable(w, r.missing)
	}
	return q.ordered(f, w, r, asStored), nil
}

// ordered gives a form the order of blocks that products are fastest from, with the reason. asStored is as for form;
// blocks that a pack serves need no memory of their own, so only what an override says keeps those as stored.
func (q *Request) ordered(f WeightForm, w Weight, r readers, asStored string) WeightForm {
	reason := ""
	feed := false
	switch {
	case w.Use&Multiplied == 0:
	case r.feed == nil:
		reason = r.stored.ISA + " kernel reads it as stored"
	case r.stored == nil:
		feed, reason = true, fmt.Sprintf("%s kernel reads it only in order %s", r.feed.ISA, r.feed.Order)
	case r.gain < worthwhile:
		reason = r.stored.ISA + " kernel reads it as stored; feed order would gain nothing"
	case asStored != "":
		f.Gain = r.gain
		reason = fmt.Sprintf("%s kernel reads it as stored; feed order would be %s, but %s", r.stored.ISA, r.faster, asStored)
	default:
		f.Gain, feed = r.gain, true
		reason = fmt.Sprintf("%s kernel reads it in order %s, %s", r.feed.ISA, r.feed.Order, r.faster)
	}
	if feed {
		f = q.fed(f, w, r)
	}
	return f.because(reason).gathered(w)
}

// fed puts a form into feed order: the blocks of a pack, or else a private copy.
func (q *Request) fed(f WeightForm, w Weight, r readers) WeightForm {
	f.Order = r.feed.Order
	if f.Residency = Private; f.Action == Keep && q.packed(w, f.Order) {
		f.Residency = PackPages
	}
	return f
}

// because adds to the reason.
func (f WeightForm) because(reason string) WeightForm {
	if f.Reason != "" && reason != "" {
		f.Reason += "; "
	}
	f.Reason += reason
	return f
}

// gathered adds to the reason what look-ups do.
func (f WeightForm) gathered(w Weight) WeightForm {
	if w.Use&Gathered == 0 {
		return f
	}
	return f.because("rows are decoded when they are looked up")
}

// readers is by what a weight can be read as it is: its products as stored and in feed order, on the same activations,
// nil where no kernel runs here; and its rows when they are looked up, which is possible in every order or in none.
type readers struct {
	stored, feed *tensor.KernelInfo
	missing      tensor.Op // the op that has no kernel at all for the encoding; 0: none
	gain         float64   // 0 when one of the two is missing, or nothing is known
	faster       string    // the gain, for people
}

// readers finds the kernels by which package exec would read a weight. Feed order is the order other than row-major
// that the first of the rows has.
func (q *Request) readers(w Weight) (r readers) {
	if _, found := q.Kernels.Find(tensor.OpDecode, w.Encoding, tensor.AnyEncoding, tensor.Order{}); !found && w.Use&Gathered != 0 {
		r.missing = tensor.OpDecode
	}
	for _, o := range q.Kernels.Orders(tensor.OpMatMulT, w.Encoding) {
		k, found := q.reader(w.Encoding, o)
		switch {
		case !found:
		case o == tensor.Order{}:
			r.stored = &k
		case r.feed == nil && w.Shape.Rank >= 2:
			r.feed = &k
		}
	}
	if r.stored != nil && r.feed != nil && r.stored.Activation != r.feed.Activation {
		r.feed = nil // the order of bytes must not change results
	}
	switch {
	case r.stored == nil && r.feed == nil && w.Use&Multiplied != 0:
		r.missing = tensor.OpMatMulT
	case r.stored == nil || r.feed == nil:
	case !r.fills(w):
	case q.Exact, r.feed.ISA == "portable": // measured for the integer form of activations alone, and vector instructions
	default:
		var family string
		r.gain, family = Gain(q.Processor, w.Encoding)
		r.faster = fmt.Sprintf("%.2f times as fast on %s", r.gain, family)
		if family != q.Processor || family == families[0] {
			r.faster = fmt.Sprintf("about %.2f times as fast (not measured on this processor)", r.gain)
		}
	}
	return r
}

// fills reports whether a weight has enough rows for one panel of feed order.
func (r *readers) fills(w Weight) bool {
	return w.Shape.Dims[w.Shape.Rank-2] >= int64(r.feed.Order.Panel)
}

// reader is the kernel by which products read weights of an encoding in an order. As package exec, it prefers one for
// the integer form of activations, unless results are to be exact.
func (q *Request) reader(e tensor.Encoding, o tensor.Order) (tensor.KernelInfo, bool) {
	if !q.Exact {
		if k, found := q.Kernels.Find(tensor.OpMatMulT, e, tensor.A8, o); found {
			return k, true
		}
	}
	return q.Kernels.Find(tensor.OpMatMulT, e, tensor.EncF32, o)
}

// unreadable is the form of a weight for which op has no kernel: dense, or refused if that takes more memory.
func (q *Request) unreadable(w Weight, op tensor.Op) (WeightForm, error) {
	f, err := converted(w, tensor.EncF32, "no "+op.String()+" kernel for "+w.Encoding.String())
	if err == nil && q.Profile.Strict && f.Bytes > w.Bytes {
		err = &RefusedError{Profile: q.Profile.Name, Tensor: w.Name, Encoding: w.Encoding, Multiple: float64(f.Bytes) / float64(w.Bytes), Op: op.String()}
	}
	return f, err
}

// converted returns the form of w decoded to a dense encoding, or encoded in a packed one; the cost is appended to the
// reason.
func converted(w Weight, to tensor.Encoding, reason string) (WeightForm, error) {
	n, err := tensor.FormatOf(to).Bytes(w.Shape)
	if err != nil {
		return WeightForm{}, fmt.Errorf("resolver: tensor %q: %w", w.Name, err)
	}
	f := WeightForm{Action: Dequantize, Encoding: to, Bytes: n}
	if packed(to) {
		f.Action = Requantize
	}
	multiple := math.Inf(1)
	if w.Bytes > 0 {
		multiple = float64(n) / float64(w.Bytes)
	}
	f.Reason = fmt.Sprintf("%s: %.2f times the stored size", reason, multiple)
	return f, nil
}

// packed reports whether an encoding has blocks of several elements.
func packed(e tensor.Encoding) bool {
	info, _ := e.Info()
	return info.BlockElements > 1
}
