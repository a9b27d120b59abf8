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
	Dequantize               // decoded once, at load
	Skip                     // not loaded: the model does not use it
)

// WeightForm is the form in which a weight will be loaded. Place decides its memory separately.
type WeightForm struct {
	Action   Action
	Encoding tensor.Encoding
	Order    tensor.Order
	Map      bool  // may be file pages: the bytes are those of the file, in the same order
	Bytes    int64 // in this form
	Reason   string
}

func (f WeightForm) String() string {
	switch {
	case f.Action == Skip:
		return "not loaded"
	case f.Action == Dequantize:
		return "dequantized to " + f.Encoding.String()
	case f.Order != tensor.Order{}:
		return f.Encoding.String() + " in " + f.Order.String()
	}
	return f.Encoding.String() + " as stored"
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

// Form decides the form of one weight. A packed weight for which a kernel exists stays packed, in the order that the
// best runnable kernel reads. A weight without a kernel is dequantized once at load, with the cost stated in Reason, or
// refused by a strict profile. Errors: *RefusedError, *tensor.EncodingError, *tensor.ShapeError.
func Form(w Weight, p Profile, kernels tensor.Kernels) (WeightForm, error) {
	f := WeightForm{Encoding: w.Encoding, Bytes: w.Bytes, Map: true}
	if w.Use == 0 {
		return WeightForm{Action: Skip, Encoding: w.Encoding, Reason: "this model does not use it"}, nil
	}
	if err := tensor.FormatOf(w.Encoding).Check(); err != nil {
		return f, fmt.Errorf("resolver: tensor %q: %w", w.Name, err)
	}
	if w.Use&Elementwise != 0 {
		if w.Encoding == tensor.EncF32 {
			f.Reason = "its ops read F32"
			return f, nil
		}
		return dequantize(w, tensor.EncF32, "its ops read only F32")
	}
	for _, need := range []struct {
		use Use
		op  tensor.Op
	}{{Multiplied, tensor.OpMatMulT}, {Gathered, tensor.OpDecode}} {
		if w.Use&need.use == 0 {
			continue
		}
		k, found := best(kernels, need.op, w.Encoding)
		if !found {
			if p.Strict {
				d, err := dequantize(w, tensor.EncF32, "")
				if err != nil {
					return d, err
				}
				return f, &RefusedError{Profile: p.Name, Tensor: w.Name, Encoding: w.Encoding, Multiple: float64(d.Bytes) / float64(w.Bytes), Op: need.op.String()}
			}
			return dequantize(w, tensor.EncF32, "no "+need.op.String()+" kernel for "+w.Encoding.String())
		}
		if need.use == Multiplied {
			f.Order = k.Order
			f.Map = k.Order == tensor.Order{}
			f.Reason = fmt.Sprintf("%s kernel reads it %s", k.ISA, orderReason(k.Order))
		} else if f.Reason == "" {
			f.Reason = "rows are decoded when they are looked up"
		} else {
			f.Reason += "; rows are decoded when they are looked up"
		}
	}
	return f, nil
}

func orderReason(o tensor.Order) string {
	if (o == tensor.Order{}) {
		return "as stored"
	}
	return "fastest in order " + o.String()
}

// best returns the best kernel of op for a weight, in any order. It prefers kernels with integer activations, as
// package exec does.
func best(kernels tensor.Kernels, op tensor.Op, e tensor.Encoding) (tensor.KernelInfo, bool) {
	for _, o := range kernels.Orders(op, e) {
		for _, activation := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
			if k, found := kernels.Find(op, e, activation, o); found {
				return k, true
			}
		}
	}
	return tensor.KernelInfo{}, false
}

// dequantize returns the form of w decoded to a dense encoding; the cost is appended to the reason.
func dequantize(w Weight, to tensor.Encoding, reason string) (WeightForm, error) {
	n, err := tensor.FormatOf(to).Bytes(w.Shape)
	if err != nil {
		return WeightForm{}, fmt.Errorf("resolver: tensor %q: %w", w.Name, err)
	}
	f := WeightForm{Action: Dequantize, Encoding: to, Bytes: n}
	multiple := math.Inf(1)
	if w.Bytes > 0 {
		multiple = float64(n) / float64(w.Bytes)
	}
	f.Reason = fmt.Sprintf("%s: %.2f times the stored size", reason, multiple)
	return f, nil
}
