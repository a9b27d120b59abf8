package exec

import (
	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/door"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

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

// Rope implements Context.
func (e *Eager) Rope(x, positions, factors View, p tensor.RopeParams) View {
	const op = "rope"
	e.gather(op, &x)
	y := e.alloc(op, f32, x.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	st := core.Rope(e.pool, e.step, desc(&x), desc(&positions), desc(&factors), p, desc(&y))
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
func (e *Eager) Attend(q, kAll, vAll, positions, sequences View, p tensor.AttendParams) View {
	const op = "attend"
	e.gather(op, &q, &kAll, &vAll)
	y := e.alloc(op, f32, withLast(q.Shape(), dim(&vAll, 0)))
	if e.err != nil {
		return View{}
	}
	start := e.start()
	st := core.Attend(e.pool, e.step, desc(&q), desc(&kAll), desc(&vAll), desc(&positions), desc(&sequences), p, desc(&y))
	if !e.done(op, start, st, &q, &kAll, &vAll, &positions, &sequences, &y) {
		return View{}
	}
	return y
}

// binary is an op of two tensors with a's shape. The kernels are not passed as functions: operands would escape to the heap.
func (e *Eager) binary(op string, a, b View, multiply bool) View {
	e.gather(op, &a, &b)
	y := e.alloc(op, f32, a.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	var st core.Status
	if multiply {
		st = core.Mul(e.pool, e.step, desc(&a), desc(&b), desc(&y))
	} else {
		st = core.Add(e.pool, e.step, desc(&a), desc(&b), desc(&y))
	}
	if !e.done(op, start, st, &a, &b, &y) {
		return View{}
	}
	return y
}

// GLU implements Context.
func (e *Eager) GLU(gate, up View, form tensor.GLUForm) View {
	const op = "glu"
	e.gather(op, &gate, &up)
	y := e.alloc(op, f32, gate.Shape())
	if e.err != nil {
		return View{}
	}
	start := e.start()
	if !e.done(op, start, core.GLU(e.pool, e.step, desc(&gate), desc(&up), form, desc(&y)), &gate, &up, &y) {
		return View{}
	}
	return y
}

// Add implements Context.
func (e *Eager) Add(a, b View) View { return e.binary("add", a, b, false) }

// Mul implements Context.
func (e *Eager) Mul(a, b View) View { return e.binary("mul", a, b, true) }

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
