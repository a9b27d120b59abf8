package exec

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

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
	pool   *core.Pool // of copier.Pool
	step   *core.Step // of copier.Step
	copier skeep.Copier
	slabs  [2]*skeep.ForwardScope // of the layer and the one before, in turn
	slab   *skeep.ForwardScope    // of the layer
	form   View                   // some tensor of activations in their integer form: what kernels are asked for
	trace  *trace.Recorder
	exact  bool

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
	e := &Eager{pool: pool, copier: skeep.Copier{Pool: o.Pool, Trace: o.Trace}, trace: o.Trace, exact: o.Exact, layer: -1}
	for i := range e.slabs {
		var err error
		if e.slabs[i], err = skeep.NewForwardScope("slab", max(o.SlabBytes/2, 4096), skeep.WithTrace(o.Trace), skeep.WithSpec(o.Slab),
			skeep.WithHeapLimit(o.HeapLimit)); err != nil {
			return fail(errors.Join(err, e.Close()))
		}
	}
	e.slab = e.slabs[0]
	var err error
	if e.form, err = e.slab.Storage().View("", 0, a8, tensor.ShapeOf(1, 32)); err != nil {
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

// Layer implements Context: the slab of the layer before the one before becomes that of layer i.
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

func (e *Eager) fail(op string, err error) {
	if !e.running && err != nil {
		err = ErrNoStep
	}
	if e.err == nil && err != nil {
		e.err = &Error{Op: op, Layer: e.layer, Err: err}
	}
}

// alloc makes the result of an op.
func (e *Eager) alloc(op string, f tensor.Format, shape tensor.Shape) View {
	if !e.running {
		e.fail(op, ErrNoStep)
	}
	if e.err != nil {
		return View{}
	}
	v, err := e.slab.Alloc(op, f, shape)
	if err != nil {
		e.fail(op, err)
		return View{}
	}
	e.results++
	return v.WithValue(skeep.ValueResult | e.results)
}

var f32 = tensor.Dense(tensor.F32)

// start is the time an op begins at, when anybody wants to know.
func (e *Eager) start() (t time.Time) {
	if e.trace.Enabled() {
		t = time.Now()
	}
	return t
}

// done looks at the status of an op; operands are in the order of the core's function.
func (e *Eager) done(op string, start time.Time, st core.Status, operands ...*View) bool {
	if st.Code != core.OK {
		e.refused(op, st, operands...)
		return false
	}
	if e.trace.Enabled() {
		ev := trace.Event{Kind: trace.Op, Name: op, Layer: int32(e.layer), Start: start, Elapsed: time.Since(start)}
		for _, v := range operands {
			if v.Value()>>30 == skeep.ValueWeight>>30 && !v.IsZero() {
				ev.Tensor = v.Name()
				ev.Bytes += v.Bytes()
			}
		}
		e.trace.Emit(ev)
	}
	for _, v := range operands {
		runtime.KeepAlive(v.Storage())
	}
	return true
}

// desc is what the core takes for a view: nil when it is absent.
func desc(v *View) *core.View {
	if v.IsZero() {
		return nil
	}
	return door.Descriptor(v)
}

// dim is the extent of an axis counted from the last, 1 when there is none.
func dim(v *View, fromLast int) int64 {
	s := v.Shape()
	if i := int(s.Rank) - 1 - fromLast; i >= 0 {
		return s.Dims[i]
	}
	return 1
}

// withLast is a shape with another last extent.
func withLast(s tensor.Shape, n int64) tensor.Shape {
	if s.Rank > 0 {
		s.Dims[s.Rank-1] = n
	}
	return s
}

// Input returns v under an input's number.
func (e *Eager) Input(_ string, v View) View {
	e.inputs++
	return v.WithValue(skeep.ValueInput | e.inputs)
}

// Embed implements Context.
func (e *Eager) Embed(table, ids View, scale float32) View {
	const op = "embed"
	if l := &door.Descriptor(&table).Layout; l.Block > 1 && l.BlockAxis != int8(l.Rank)-1 { // rows that are no blocks
		table = e.copy(op, table, f32)
	}
	y := e.alloc(op, f32, tensor.ShapeOf(dim(&ids, 0), dim(&table, 0)))
	if e.err != nil {
		return View{}
	}
	start := e.start()
	if !e.done(op, start, core.Embed(e.pool, e.step, desc(&table), desc(&ids), scale, desc(&y)), &table, &ids, &y) {
		return View{}
	}
	return y
}

// Norm implements Context.
func (e *Eager) Norm(x, before, w, after View, eps float32) (sum, y View) {
	const op = "norm"
	if e.err != nil {
		return View{}, View{}
	}
	sum = x
	e.gather(op, &x, &before, &w, &after)
	var sumOut View
	if !before.IsZero() {
		sumOut = e.alloc(op, f32, x.Shape())
		sum = sumOut
	}
	y = e.alloc(op, f32, x.Shape())
	if e.err != nil {
		return View{}, View{}
	}
	start := e.start()
	st := core.Norm(e.pool, e.step, desc(&x), desc(&before), desc(&w), desc(&after), eps, desc(&sumOut), desc(&y))
	if !e.done(op, start, st, &x, &before, &w, &after, &sumOut, &y) {
		return View{}, View{}
	}
	return sum, y
}

// Project implements Context.
func (e *Eager) Project(x View, w, bias [3]View) [3]View { return e.project("project", x, w, bias) }

func (e *Eager) project(op string, x View, w, bias [3]View) (y [3]View) {
	switch {
	case e.err != nil:
	case x.IsZero():
		e.fail(op, absent("x"))
	case w[0].IsZero() && w[1].IsZero() && w[2].IsZero():
		e.fail(op, absent("w"))
	}
	// Products on the integer form of x, then those on x itself: two groups at most.
	for _, integer := range [2]bool{true, false} {
		var ws, bs, ys [3]View
		var at [3]int
		n, input := 0, x
		for i := range w {
			if e.err != nil {
				return [3]View{}
			}
			if w[i].IsZero() || e.integer(&w[i]) != integer {
				continue
			}
			ws[n], bs[n], at[n] = w[i], bias[i], i
			if !integer {
				input = e.even(op, input)
				ws[n] = e.multipliable(op, input, w[i])
			}
			ys[n] = e.alloc(op, f32, withLast(x.Shape(), dim(&w[i], 1)))
			n++
		}
		if n == 0 {
			continue
		}
		if integer {
			input = e.quantize(op, x)
		}
		e.gather(op, &bs[0], &bs[1], &bs[2])
		if e.err != nil {
			return [3]View{}
		}
		start := e.start()
		var wd, bd, yd [3]*core.View
		for i := range n {
			wd[i], bd[i], yd[i] = desc(&ws[i]), desc(&bs[i]), desc(&ys[i])
		}
		st := core.Project(e.pool, e.step, desc(&input), n, &wd, &bd, &yd)
		// Operand numbers of the core count only the n that are there.
		if i := int(st.Operand); st.Code != core.OK && i > 0 {
			st.Operand = int32((i-1)/n*3 + (i-1)%n + 1)
		}
		if !e.done(op, start, st, &input, &ws[0], &ws[1], &ws[2], &bs[0], &bs[1], &bs[2], &ys[0], &ys[1], &ys[2]) {
			return [3]View{}
		}
		for i := range n {
			y[at[i]] = ys[i]
		}
	}
	return y
}

// MatMulT implements Context.
func (e *Eager) MatMulT(x, w View) View { return e.project("matmul_t", x, [3]View{w}, [3]View{})[0] }

// integer reports whether products with w run on the integer form of an activation: the kernel table decides.
func (e *Eager) integer(w *View) bool {
	if e.exact || w.Layout().Block == 1 {
		return false
	}
	_, st := core.Select(core.OpMatMulT, []*core.View{door.Descriptor(&e.form), door.Descriptor(w)})
	return st.Code == core.OK
}

var a8 = tensor.FormatOf(tensor.A8)

// quantize makes the integer form of x, once for all products of it that follow each other.
//
// Only what a slab holds is remembered, by where and how it lies: ops write into bytes that were free before, and what
// is written through views or storages is counted. Who else writes to an input's bytes, nobody can tell.
func (e *Eager) quantize(op string, x View) View {
	const name = "quantize_rows"
	of := x.WithValue(0) // view arithmetic outside of the context keeps a number: it says nothing of the bytes
	q := &e.quantized
	if !x.IsZero() && q.of == of && q.writes == of.Writes() {
		return q.view
	}
	held := e.slabs[0].Holds(of) || e.slabs[1].Holds(of)
	writes := of.Writes()
	e.gather(op, &x)
	y := e.alloc(name, a8, x.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	st := core.QuantizeRows(e.pool, e.step, desc(&x), desc(&y))
	if st.Code != core.OK {
		e.refused(op, st, &x, &y)
		return View{}
	}
	e.done(name, start, st, &x, &y)
	if e.trace.Enabled() {
		e.trace.Emit(trace.Event{Kind: trace.Quantize, Name: name, Layer: int32(e.layer), Bytes: y.Bytes(), Start: start, Elapsed: time.Since(start)})
	}
	if held {
		q.of, q.writes, q.view = of, writes, y
	}
	return y
}

// multipliable is w in a form that a product with the F32 x takes: w itself, or a decoded copy, which the
// trace shows.
func (e *Eager) multipliable(op string, x, w View) View {
	if e.err != nil {
		return View{}
	}
	if _, st := core.Select(core.OpMatMulT, []*core.View{door.Descriptor(&x), door.Descriptor(&w)}); st.Code == core.OK || st.Operand == 0 {
		return w
	}
	return e.copy(op, w, f32)
}

// gather replaces inputs that have gaps in their last axis, which ops of the core read in rows, by copies, which the
// trace shows.
func (e *Eager) gather(op string, inputs ...*View) {
	for _, x := range inputs {
		if l := &door.Descriptor(x).Layout; e.err == nil && l.Block == 1 && !inRows(l) {
			*x = e.copy(op, *x, x.Format())
		}
	}
}

// inRows reports whether the elements of the last axis follow each other.
func inRows(l *tensor.Layout) bool {
	return l.Rank == 0 || l.Stride[l.Rank-1] == 1 || l.Shape[l.Rank-1] == 1
}

// even is x with rows of the last axis that are free of gaps and evenly spaced over all other axes, as a product
// walks them: x itself, or a copy.
func (e *Eager) even(op string, x View) View {
	l := &door.Descriptor(&x).Layout
	if e.err != nil || l.Block != 1 {
		return x
	}
	even, rows, stride := inRows(l), int64(1), int64(0)
	for a := int(l.Rank) - 2; a >= 0 && even; a-- {
		if l.Shape[a] == 1 {
			continue
		}
		if rows == 1 {
			stride = l.Stride[a]
		}
		even = l.Stride[a] == rows*stride
		rows *= l.Shape[a]
	}
	if even {
		return x
	}
	return e.copy(op, x, x.Format())
}

// copy is v in format f, gap-free, in this layer's memory.
func (e *Eager) copy(op string, v View, f tensor.Format) View {
	c := e.copier
	c.Layer = int32(e.layer)
	y, err := c.Materialize(v.Name(), v, f, e.slab)
	if err != nil {
		e.fail(op, err)
		return View{}
	}
	e.copies++
	return y.WithValue(v.Value())
}

// Rope implements Context.
func (e *Eager) Rope(x, positions, factors View, p RopeParams) View {
	const op = "rope"
	e.gather(op, &x)
	y := e.alloc(op, f32, x.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	st := core.Rope(e.pool, e.step, desc(&x), desc(&positions), desc(&factors), core.RopeParams{Form: uint32(p.Form), Dims: p.Dims, Base: p.Base, Scale: p.Scale,
		ExtFactor: p.ExtFactor, AttnFactor: p.AttnFactor, BetaFast: p.BetaFast, BetaSlow: p.BetaSlow, OriginalContext: p.OriginalContext}, desc(&y))
	if !e.done(op, start, st, &x, &positions, &factors, &y) {
		return View{}
	}
	return y
}

// KVStore implements Context.
func (e *Eager) KVStore(k, v, positions, sequences, kCache, vCache View) (kAll, vAll View) {
	const op = "kv_store"
	if !e.running {
		e.fail(op, ErrNoStep)
	}
	e.gather(op, &k, &v)
	if e.err != nil {
		return View{}, View{}
	}
	kCache.MarkWritten()
	vCache.MarkWritten()
	start := e.start()
	st := core.KVStore(e.pool, e.step, desc(&k), desc(&v), desc(&positions), desc(&sequences), desc(&kCache), desc(&vCache))
	if st.Code == core.ErrValue {
		in, cache := &k, &kCache
		if st.Operand == 1 {
			in, cache = &v, &vCache
		}
		e.fail(op, inside.ValueError(op, st, *in, *cache))
		return View{}, View{}
	}
	if !e.done(op, start, st, &k, &v, &positions, &sequences, &kCache, &vCache) {
		return View{}, View{}
	}
	e.results += 2
	return kCache.WithValue(skeep.ValueCache | (e.results - 1)), vCache.WithValue(skeep.ValueCache | e.results)
}

// Attend implements Context.
func (e *Eager) Attend(q, kAll, vAll, positions, sequences View, p AttendParams) View {
	const op = "attend"
	e.gather(op, &q, &kAll, &vAll)
	y := e.alloc(op, f32, q.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	st := core.Attend(e.pool, e.step, desc(&q), desc(&kAll), desc(&vAll), desc(&positions), desc(&sequences), core.AttendParams{Scale: p.Scale, Softcap: p.Softcap, Window: p.Window}, desc(&y))
	if !e.done(op, start, st, &q, &kAll, &vAll, &positions, &sequences, &y) {
		return View{}
	}
	return y
}

// binary is an op of two tensors with a's shape.
func (e *Eager) binary(op string, a, b View, run func(*core.Pool, *core.Step, *core.View, *core.View, *core.View) core.Status) View {
	e.gather(op, &a, &b)
	y := e.alloc(op, f32, a.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	if !e.done(op, start, run(e.pool, e.step, desc(&a), desc(&b), desc(&y)), &a, &b, &y) {
		return View{}
	}
	return y
}

// GLU implements Context.
func (e *Eager) GLU(gate, up View, form GLUForm) View {
	const op = "glu"
	e.gather(op, &gate, &up)
	y := e.alloc(op, f32, gate.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	if !e.done(op, start, core.GLU(e.pool, e.step, desc(&gate), desc(&up), uint32(form), desc(&y)), &gate, &up, &y) {
		return View{}
	}
	return y
}

// Add implements Context.
func (e *Eager) Add(a, b View) View { return e.binary("add", a, b, core.Add) }

// Mul implements Context.
func (e *Eager) Mul(a, b View) View { return e.binary("mul", a, b, core.Mul) }

// Softmax implements Context.
func (e *Eager) Softmax(x View, scale float32) View {
	const op = "softmax"
	e.gather(op, &x)
	y := e.alloc(op, f32, x.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	if !e.done(op, start, core.Softmax(e.pool, e.step, desc(&x), scale, desc(&y)), &x, &y) {
		return View{}
	}
	return y
}

// Logits implements Context.
func (e *Eager) Logits(x, w View, softcap float32) View {
	const op = "logits"
	y := e.project(op, x, [3]View{w}, [3]View{})[0]
	if e.err != nil || softcap <= 0 {
		return y
	}
	start := e.start()
	if !e.done(op, start, core.Softcap(e.pool, e.step, desc(&y), softcap, desc(&y)), &y) {
		return View{}
	}
	return y
}

// relaid takes the result of view arithmetic.
func (e *Eager) relaid(op string, v View, err error) View {
	if err != nil {
		e.fail(op, err)
	}
	if e.err != nil {
		return View{}
	}
	e.results++
	return v.WithValue(skeep.ValueResult | e.results)
}

// Split implements Context.
func (e *Eager) Split(x View, axis int, a int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Split(axis, int64(a))
	return e.relaid("split", v, err)
}

// Merge implements Context.
func (e *Eager) Merge(x View, axis int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Merge(axis)
	return e.relaid("merge", v, err)
}

// Narrow implements Context.
func (e *Eager) Narrow(x View, axis int, start, length int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Narrow(axis, int64(start), int64(length))
	return e.relaid("narrow", v, err)
}

// Transpose implements Context.
func (e *Eager) Transpose(x View, a, b int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Transpose(a, b)
	return e.relaid("transpose", v, err)
}
