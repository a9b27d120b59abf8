package skeep

import (
	"runtime"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// Copier makes copies: the only place where bytes move from one form to another. Every copy streams through the pool's
// bounded scratch, lands in a scope that owns the result, and emits a trace event with its byte count. A Copier may be
// copied freely.
type Copier struct {
	Pool  *Pool
	Step  *Step           // the caller's running step, or nil
	Trace *trace.Recorder // may be nil
	Layer int32           // for the trace; -1 outside of layers
}

// noScope is what an error says when there is none to put a copy into.
const noScope = "the scope is nil"

func recorderOf(s Scope) *trace.Recorder {
	if s == nil {
		return nil
	}
	return s.recorder()
}

// Materialize copies v, in any layout, into a gap-free row-major tensor of format f in scope into. It decodes packed
// elements, converts between dense formats, or copies blocks unchanged if f is the format of v. To encode into a packed
// format, use Copier.Encode. name is the name of the result.
func Materialize(p *Pool, name string, v View, f tensor.Format, into Scope) (View, error) {
	return Copier{Pool: p, Trace: recorderOf(into), Layer: -1}.Materialize(name, v, f, into)
}

// Prepack copies the blocks of v in another order into scope into.
func Prepack(p *Pool, name string, v View, o tensor.Order, into Scope) (View, error) {
	return Copier{Pool: p, Trace: recorderOf(into), Layer: -1}.Prepack(name, v, o, into)
}

// Retain copies v in its own format into another scope, for example to keep a result of a ForwardScope.
func Retain(p *Pool, name string, v View, into Scope) (View, error) {
	return Copier{Pool: p, Trace: recorderOf(into), Layer: -1}.materialize("retain", name, v, v.desc.Format, into)
}

// Materialize is the package function Materialize, run within c.Step.
func (c Copier) Materialize(name string, v View, f tensor.Format, into Scope) (View, error) {
	return c.materialize("materialize", name, v, f, into)
}

func (c Copier) materialize(op, name string, v View, f tensor.Format, into Scope) (View, error) {
	if v.storage == nil {
		return View{}, v.absent(op)
	}
	packed := v.desc.Layout.Block > 1 && f == v.desc.Format
	if e, _ := f.Block(); e > 1 && !packed {
		return View{}, v.fail(op, ErrFormat, "from "+v.desc.Format.String()+" to "+f.String())
	}
	l, err := tensor.LayoutOf(f, v.Shape(), tensor.Order{})
	if err != nil {
		return View{}, v.fail(op, err, "")
	}
	return c.run(op, trace.Materialize, name, v, f, l, into)
}

// Prepack is the package function Prepack, run within c.Step.
func (c Copier) Prepack(name string, v View, o tensor.Order, into Scope) (View, error) {
	const op = "prepack"
	if v.storage == nil {
		return View{}, v.absent(op)
	}
	l, err := tensor.LayoutOf(v.desc.Format, v.Shape(), o)
	if err != nil {
		return View{}, v.fail(op, err, "")
	}
	return c.run(op, trace.Prepack, name, v, v.desc.Format, l, into)
}

// PrepackTo is Prepack into an existing tensor y of the same format and shape, whose layout says the order.
func (c Copier) PrepackTo(v, y View) error {
	const op = "prepack"
	switch {
	case v.storage == nil:
		return v.absent(op)
	case y.storage == nil:
		return y.absent(op)
	case v.desc.Format != y.desc.Format:
		return y.fail(op, ErrFormat, "from "+v.desc.Format.String()+" to "+y.desc.Format.String())
	}
	y.MarkWritten()
	return c.fill(op, trace.Prepack, y.Name(), v, y)
}

// run fills a new tensor: blocks move as they are, anything else is converted.
func (c Copier) run(op string, kind trace.Kind, name string, v View, f tensor.Format, l tensor.Layout, into Scope) (View, error) {
	if into == nil {
		return View{}, v.fail(op, ErrArgument, noScope)
	}
	y, err := into.AllocLayout(name, f, l)
	if err != nil {
		return View{}, err
	}
	if err := c.fill(op, kind, name, v, y); err != nil {
		into.discard(y)
		return View{}, err
	}
	return y, nil
}

// fill copies the elements of v into y, which the trace knows by name.
func (c Copier) fill(op string, kind trace.Kind, name string, v, y View) error {
	e := trace.Event{Kind: kind, Name: op, Tensor: name, Layer: c.Layer, Bytes: int64(y.desc.Bytes)}
	if c.Trace.Enabled() {
		e.Start = time.Now()
		e.Detail = v.desc.Format.String() + " " + v.desc.Layout.Order.String() + " -> " + y.desc.Format.String() + " " + y.desc.Layout.Order.String()
	}
	var st core.Status
	if y.desc.Layout.Block > 1 {
		st = core.Prepack(c.Pool.inside(), c.Step.inside(), &v.desc, &y.desc)
	} else {
		st = core.Convert(c.Pool.inside(), c.Step.inside(), &v.desc, &y.desc)
	}
	runtime.KeepAlive(v.storage)
	runtime.KeepAlive(y.storage)
	switch {
	case st.Code != core.OK && st.Operand == 1:
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
