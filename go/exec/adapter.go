package exec

import (
	"sync"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/door"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// Adapters bring operands into a form that an op of the core takes: the trace shows each.

var kernels = sync.OnceValue(skeep.Kernels)

// form is what the kernel table knows a weight by.
type form struct {
	encoding tensor.Encoding
	order    tensor.Order
}

// integer reports whether products with w run on the integer form of an activation: the kernel table says it of its
// form, once, and the core of its layout, at every call.
func (e *Eager) integer(w *View) bool {
	d := door.Descriptor(w)
	f := form{d.Format.Encoding, d.Layout.Order}
	integer, known := e.integers[f]
	if !known {
		if !e.exact {
			_, integer = kernels().Find(tensor.OpMatMulT, f.encoding, tensor.A8, f.order)
		}
		e.integers[f] = integer
	}
	if integer {
		_, st := core.Select(tensor.OpMatMulT, []*core.View{door.Descriptor(&e.activation), d})
		integer = st.Code == core.OK
	}
	return integer
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
	if _, st := core.Select(tensor.OpMatMulT, []*core.View{door.Descriptor(&x), door.Descriptor(&w)}); st.Code == core.OK || st.Operand == 0 {
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
