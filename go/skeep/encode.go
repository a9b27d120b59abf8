package skeep

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// ValueError is an element that a format cannot hold: it is not finite, or too large. It wraps ErrValue.
type ValueError struct {
	Index  []int64 // of the element, the first in logical order
	Value  float64
	Format tensor.Format
}

func (e *ValueError) Error() string {
	where := "the scalar"
	switch n := len(e.Index); {
	case n == 1:
		where = fmt.Sprintf("column %d", e.Index[0])
	case n == 2:
		where = fmt.Sprintf("row %d, column %d", e.Index[0], e.Index[1])
	case n > 2:
		where = fmt.Sprintf("plane %v, row %d, column %d", e.Index[:n-2], e.Index[n-2], e.Index[n-1])
	}
	return fmt.Sprintf("%s is %g, which cannot be encoded in %s", where, e.Value, e.Format)
}

// Unwrap returns ErrValue.
func (e *ValueError) Unwrap() error { return ErrValue }

// Encode encodes the floating-point elements of v, in any format and layout, into a gap-free row-major tensor of format
// f in scope into. f may be packed; rounding loses precision. A trace event of kind Requantize records the number of
// bytes. An element that f cannot hold is a *ValueError with its index; a format without an encoder is ErrUnsupported.
func (c Copier) Encode(name string, v View, f tensor.Format, into Scope) (View, error) {
	if into == nil {
		return View{}, v.fail("encode", ErrArgument, noScope)
	}
	y, err := into.Alloc(name, f, v.Shape())
	if err != nil {
		return View{}, err
	}
	if err := c.EncodeTo(v, y); err != nil {
		into.discard(y)
		return View{}, err
	}
	return y, nil
}

// EncodeTo is Encode into an existing tensor y of the same shape and any layout.
func (c Copier) EncodeTo(v, y View) error {
	const op = "encode"
	if v.storage == nil {
		return v.absent(op)
	}
	if y.storage == nil {
		return y.absent(op)
	}
	e := trace.Event{Kind: trace.Requantize, Name: op, Tensor: y.Name(), Layer: c.Layer, Bytes: y.Bytes()}
	if c.Trace.Enabled() {
		e.Start = time.Now()
		e.Detail = v.desc.Format.String() + " -> " + y.desc.Format.String()
	}
	y.MarkWritten()
	st := core.Encode(c.Pool.inside(), c.Step.inside(), &v.desc, &y.desc)
	runtime.KeepAlive(v.storage)
	runtime.KeepAlive(y.storage)
	switch {
	case st.Code == core.ErrValue:
		return v.fail(op, v.valueError(int64(st.Detail), y.desc.Format), "")
	case st.Code == core.ErrNoKernel:
		return y.fail(op, ErrUnsupported, y.desc.Format.String()+" has no encoder")
	case st.Code == core.ErrShape:
		return v.fail(op, ErrShape, fmt.Sprintf("%s into %s", v.Shape(), y.Shape()))
	case st.Operand == 1:
		return y.wrap(op, st)
	case st.Code != core.OK:
		return v.wrap(op, st)
	}
	if c.Trace.Enabled() {
		e.Elapsed = time.Since(e.Start)
	}
	c.Trace.Emit(e)
	return nil
}

// valueError finds the element at a flat position.
func (v View) valueError(flat int64, f tensor.Format) error {
	dims := v.Shape()
	e := &ValueError{Index: slices.Clone(dims.Dims[:dims.Rank]), Format: f}
	for axis := len(e.Index) - 1; axis >= 0; axis-- {
		n := e.Index[axis]
		e.Index[axis], flat = flat%n, flat/n
	}
	var err error
	if e.Value, err = v.Get(e.Index...); err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	return e
}
