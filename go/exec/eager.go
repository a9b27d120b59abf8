package exec

import (
	"errors"
	"fmt"
	"math"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/door"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// Options make an eager context.
type Options struct {
	Pool *skeep.Pool // runs the ops; the caller closes it after the context: once it is closed, Begin and ops are refused. Required.
	// SlabBytes is the size of the two slabs together that hold the results of one layer and the next in
	// turn. Results that do not fit get memory of their own, counted by Overflow.
	SlabBytes int64
	HeapLimit int64                 // bytes that storages may hold of the Go heap; 0 = the default of skeep.WithHeapLimit
	Slab      tensor.AllocationSpec // where the slabs live; the zero spec is the Go heap
	Roots     int                   // storages that a step may touch, 32768 at most; 0: 1024
	// Exact computes products on F32 activations. Otherwise activations are quantized to 8 bits wherever
	// the weight has an integer kernel.
	Exact bool
	Trace *trace.Recorder // may be nil
}

// Eager is the Context that computes at once, by the C core. One step at a time:
//
//	Begin, ops, End
//
// The last layer's results stay readable after End, until the next Begin. An Eager belongs to one goroutine at a time.
type Eager struct {
	pool       *core.Pool // of copier.Pool
	step       *core.Step // of copier.Step
	copier     skeep.Copier
	slabs      [2]*skeep.ForwardScope // of the layer and the one before, in turn
	slab       *skeep.ForwardScope    // of the layer
	activation View                   // some tensor of activations in their integer form, to ask the core with
	integers   map[form]bool          // what the table said of forms of weights
	trace      *trace.Recorder
	exact      bool

	layer     int
	turn      bool // which slab is the layer's
	err       error
	running   bool
	copies    int64
	results   uint32 // numbers of results and inputs given out in this step
	inputs    uint32
	quantized struct { // the activation quantized last: products of one input often follow each other
		of     View   // one that a slab holds, under no value number; zero when there is none
		writes uint64 // into its storage, when it was quantized
		view   View
	}
}

var _ Context = (*Eager)(nil)

var inside = door.Enter[View, skeep.Pool, skeep.Step]()

// NewEager makes an eager context. Close it. Options that are out of range are errors that wrap skeep.ErrArgument.
func NewEager(o Options) (*Eager, error) {
	fail := func(err error) (*Eager, error) { return nil, &Error{Op: "new", Layer: -1, Err: err} }
	pool := inside.Pool(o.Pool)
	if st := core.PoolStatus(pool); st.Code != core.OK {
		return fail(inside.Error("new", st, nil))
	}
	for _, c := range []struct {
		name       string
		value, max int64
	}{{"Roots", int64(o.Roots), core.MaxRoots}, {"SlabBytes", o.SlabBytes, math.MaxInt64}, {"HeapLimit", o.HeapLimit, math.MaxInt64}} {
		if c.value < 0 || c.value > c.max {
			return fail(fmt.Errorf("%w: Options.%s is %d, want 0 to %d", skeep.ErrArgument, c.name, c.value, c.max))
		}
	}
	if o.Roots == 0 {
		o.Roots = 1024
	}
	e := &Eager{pool: pool, copier: skeep.Copier{Pool: o.Pool, Trace: o.Trace}, trace: o.Trace, exact: o.Exact, layer: -1,
		integers: map[form]bool{}}
	for i := range e.slabs {
		var err error
		if e.slabs[i], err = skeep.NewForwardScope("slab", max(o.SlabBytes/2, 4096), skeep.WithTrace(o.Trace), skeep.WithSpec(o.Slab),
			skeep.WithHeapLimit(o.HeapLimit)); err != nil {
			return fail(errors.Join(err, e.Close()))
		}
	}
	e.slab = e.slabs[0]
	var err error
	if e.activation, err = e.slab.Storage().View("", 0, a8, tensor.ShapeOf(1, 32)); err != nil {
		return fail(errors.Join(err, e.Close()))
	}
	step, err := skeep.NewStep(o.Roots)
	if err != nil {
		return fail(errors.Join(err, e.Close()))
	}
	e.copier.Step, e.step = step, inside.Step(step)
	return e, nil
}

// Begin starts a step: the results of the one before end.
func (e *Eager) Begin() error {
	if e.running {
		if err := e.End(); err != nil {
			return err
		}
	}
	if st := core.PoolStatus(e.pool); st.Code != core.OK {
		return &Error{Op: "begin", Layer: -1, Err: inside.Error("begin", st, nil)}
	}
	e.err, e.layer, e.results, e.inputs = nil, -1, 0, 0
	e.quantized.of = View{}
	for _, slab := range e.slabs {
		if err := slab.Reset(nil); err != nil {
			return &Error{Op: "begin", Layer: -1, Err: err}
		}
	}
	if err := e.copier.Step.Begin(); err != nil {
		return &Error{Op: "begin", Layer: -1, Err: err}
	}
	e.running = true
	return nil
}

// End ends a step and returns its first error; also a file that changed under its mapping while the
// step ran is one, and the step's results are then worthless.
func (e *Eager) End() error {
	if !e.running {
		return e.err
	}
	e.running = false
	if err := e.copier.Step.End(); errors.Is(err, skeep.ErrChanged) || err != nil && e.err == nil {
		e.err = &Error{Op: "end", Layer: -1, Err: err}
	}
	return e.err
}

// Close ends a running step and frees the slabs.
func (e *Eager) Close() error {
	if e.running {
		_ = e.End() // the step's error belongs to whoever ran it
	}
	e.copier.Step.Close()
	var errs []error
	for _, slab := range e.slabs {
		if slab != nil {
			errs = append(errs, slab.Close())
		}
	}
	return errors.Join(errs...)
}

// Err is the first error of the step, or nil.
func (e *Eager) Err() error { return e.err }

// Layer implements Context: the slab of the layer before the one before becomes that of layer i. It waits until nobody but
// this step reads what was made in it.
func (e *Eager) Layer(i int) {
	e.layer = i
	if e.err != nil || !e.running {
		return
	}
	e.slab = e.slabs[0]
	if e.turn = !e.turn; e.turn {
		e.slab = e.slabs[1]
	}
	e.quantized.of = View{}
	if err := e.slab.Reset(e.copier.Step); err != nil {
		e.fail("layer", err)
	}
}

// Copies counts the operands of all steps that had to be decoded or gathered into a copy before an op could
// read them. 0 in a model whose weights have kernels.
func (e *Eager) Copies() int64 { return e.copies }

// Slab is what a step's results took.
type Slab struct {
	Bytes    int64          // of both slabs
	Peak     int64          // the most that one layer wanted
	Overflow skeep.Overflow // what did not fit
}

// Slab tells the memory of the steps so far.
func (e *Eager) Slab() (s Slab) {
	for _, slab := range e.slabs {
		if slab == nil {
			continue
		}
		s.Bytes += slab.Size()
		s.Peak = max(s.Peak, slab.Peak())
		o := slab.Overflow()
		s.Overflow.Count += o.Count
		s.Overflow.Bytes += o.Bytes
		if s.Overflow.First == "" {
			s.Overflow.First = o.First
		}
	}
	return s
}
