package skeep

import (
	"fmt"
	"runtime"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// Pool is the worker threads of the C core and their scratch, of NewPool until its Close; Threads is their number.
// Goroutines may share one, also while one of them closes it: Close waits for the operations that have begun, and later
// ones (Materialize, an op of package exec, a load, …) are refused with an *Error of the storage "pool" that wraps
// ErrClosed. Closing it again, or at the same time, is harmless, and returns once the threads have ended; Threads is 0 then.
type Pool = core.Pool

// NewPool starts so many threads, the caller counted, 1024 at most; 0 is one per processor that it may run on. Close
// ends them; a pool that becomes unreachable before is reported as a Leak. Errors wrap ErrArgument or ErrMemory.
func NewPool(threads int) (*Pool, error) {
	if threads < 0 || threads > core.MaxThreads {
		return nil, &Error{Op: "start", Storage: "pool", Err: ErrArgument, Detail: fmt.Sprintf("%d threads, want 0 to %d", threads, core.MaxThreads)}
	}
	p, st := core.NewPool(threads, 0)
	if st.Code != core.OK {
		return nil, &Error{Op: "start", Storage: "pool", Err: sentinels[st.Code], Detail: st.String()}
	}
	var pcs [24]uintptr
	stack, n := pcs[:runtime.Callers(2, pcs[:])], p.Threads()
	p.OnDrop(func() { Leak{Storage: "pool", Threads: n, Created: stackText(stack)}.report() })
	return p, nil
}

// Copier makes copies: the only place where bytes move from one form to another. Every copy streams
// through the pool's bounded scratch, lands in a scope that owns the result, and emits a trace event
// with its byte count. It is a plain value.
type Copier struct {
	Pool  *Pool
	Step  *core.Step      // the caller's running step, or nil
	Trace *trace.Recorder // may be nil
	Layer int32           // for the trace; -1 outside of layers
}

// noScope is what an error says when there is none to put a copy into.
const noScope = "there is no scope"

func recorderOf(s Scope) *trace.Recorder {
	if s == nil {
		return nil
	}
	return s.recorder()
}

// Materialize copies v, in any layout, into a gap-free row-major tensor of format f in scope into: decoded
// or converted between dense formats, or the same blocks when f is v's format. What encodes
// into a packed format is Copier.Encode. name names the result.
func Materialize(p *Pool, name string, v View, f tensor.Format, into Scope) (View, error) {
	return Copier{Pool: p, Trace: recorderOf(into), Layer: -1}.Materialize(name, v, f, into)
}

// Prepack copies the blocks of v in another order into scope into.
func Prepack(p *Pool, name string, v View, o tensor.Order, into Scope) (View, error) {
	return Copier{Pool: p, Trace: recorderOf(into), Layer: -1}.Prepack(name, v, o, into)
}

// Retain copies v, in its own format, into a scope that outlives v's: the only way out of a ForwardScope.
func Retain(p *Pool, name string, v View, into Scope) (View, error) {
	return Copier{Pool: p, Trace: recorderOf(into), Layer: -1}.materialize("retain", name, v, v.desc.Format, into)
}

// Materialize is the function of that name, within a step.
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

// Prepack is the function of that name, within a step.
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

// run fills a new tensor: blocks move as they are, anything else is converted.
func (c Copier) run(op string, kind trace.Kind, name string, v View, f tensor.Format, l tensor.Layout, into Scope) (View, error) {
	if into == nil {
		return View{}, v.fail(op, ErrArgument, noScope)
	}
	y, err := into.AllocLayout(name, f, l)
	if err != nil {
		return View{}, err
	}
	e := trace.Event{Kind: kind, Name: op, Tensor: name, Layer: c.Layer, Bytes: int64(y.desc.Bytes)}
	if c.Trace.Enabled() {
		e.Start = time.Now()
		e.Detail = v.desc.Format.String() + " " + v.desc.Layout.Order.String() + " -> " + f.String() + " " + l.Order.String()
	}
	var st core.Status
	if y.desc.Layout.Block > 1 {
		st = core.Prepack(c.Pool, c.Step, &v.desc, &y.desc)
	} else {
		st = core.Convert(c.Pool, c.Step, &v.desc, &y.desc)
	}
	runtime.KeepAlive(v.storage)
	runtime.KeepAlive(y.storage)
	if st.Code != core.OK {
		into.discard(y)
		if st.Operand == 1 {
			return View{}, y.Wrap(op, st)
		}
		return View{}, v.Wrap(op, st)
	}
	if c.Trace.Enabled() {
		e.Elapsed = time.Since(e.Start)
	}
	c.Trace.Emit(e)
	return y, nil
}
