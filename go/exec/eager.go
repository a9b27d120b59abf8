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

// Options configure an eager context.
type Options struct {
	Pool *skeep.Pool // runs the ops; required. The caller closes it after the context; once it is closed, Begin and ops fail.
	// SlabBytes is the total size of the two slabs, which hold the results of alternating layers. Results that do not
	// fit get memory of their own; Overflow counts them.
	SlabBytes int64
	HeapLimit int64                 // bytes of the Go heap that storages may hold; 0 = the default of skeep.WithHeapLimit
	Slab      tensor.AllocationSpec // where the slabs live; the zero spec is the Go heap
	Roots     int                   // storages that a step may use, at most 32768; 0 = 1024
	// Exact computes products on F32 activations. Otherwise activations are quantized to 8 bits wherever
	// the weight has an integer kernel.
	Exact bool
	Trace *trace.Recorder // may be nil
}

// Eager is the Context that computes each op immediately in the C core. A step is a sequence of calls:
//
//	Begin, ops, End
//
// The last layer's results stay readable after End, until the next Begin. An Eager must be used by one goroutine at a
// time.
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

// NewEager makes an eager context. The caller must Close it. An option out of range is an error that wraps
// skeep.ErrArgument.
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

// Begin starts a step and ends the results of the previous one.
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

// End ends a step and returns its first error. A mapped file that changed during the step is an error too; the results
// of the step are then invalid.
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

// Close ends the step if one is running, and frees the slabs.
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

// Layer implements Context: layer i reuses the slab of the layer before the previous one. It waits until nobody outside
// of this step reads the results in that slab.
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

// Copies counts the operands, in all steps, that had to be decoded or gathered into a copy before an op could read
// them. It is 0 if kernels exist for all weights of the model.
func (e *Eager) Copies() int64 { return e.copies }

// Slab is the memory that the results of steps have used.
type Slab struct {
	Bytes    int64          // of both slabs
	Peak     int64          // maximum bytes that one layer needed
	Overflow skeep.Overflow // what did not fit
}

// Slab returns the memory that the steps have used so far.
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
