package exec

import (
	"runtime"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/door"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// What the methods of Eager that are ops share.

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
