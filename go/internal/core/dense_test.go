package core_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

func TestDenseOpsRefuseByName(t *testing.T) {
	m := newMaker(t, 13)
	p := densePool(t, 2)
	f := func(shape ...int) *operand { return m.make(tensor.EncF32, 0, shape...).fill(m.normal) }
	ints := func(n int) *operand {
		o := m.make(tensor.EncI32, 0, n)
		for i := range n {
			o.setInt(i, i)
		}
		return o
	}
	half := func(shape ...int) *operand { return m.make(tensor.EncF16, 0, shape...) }
	stepped := func(shape ...int) *operand { // every other element of the last axis
		shape[len(shape)-1] *= 2
		o := f(shape...)
		o.view.Layout.Shape[len(shape)-1] /= 2
		o.view.Layout.Stride[len(shape)-1] = 2
		return o
	}
	rope := tensor.RopeParams{Dims: 8, Base: 10000, Scale: 1, AttnFactor: 1}
	attend := tensor.AttendParams{Scale: 1}
	nan := float32(math.NaN())
	type call = func(y *operand) core.Status
	for _, c := range []struct {
		name string
		y    *operand
		run  call
		want core.Status
	}{
		{"norm w", f(3, 8), func(y *operand) core.Status { return core.Norm(p, nil, f(3, 8).v(), nil, f(7).v(), nil, 0, nil, y.v()) },
			core.Status{Code: core.ErrShape, Operand: 2, Detail: 0}},
		{"norm w absent", f(3, 8), func(y *operand) core.Status { return core.Norm(p, nil, f(3, 8).v(), nil, nil, nil, 0, nil, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: 2}},
		{"norm x absent", f(3, 8), func(y *operand) core.Status { return core.Norm(p, nil, nil, nil, f(8).v(), nil, 0, nil, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: 0}},
		{"norm y absent", nil, func(y *operand) core.Status { return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), nil, 0, nil, nil) },
			core.Status{Code: core.ErrArgument, Operand: 5}},
		{"norm before", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, f(3, 8).v(), f(4, 8).v(), f(8).v(), nil, 0, nil, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 1, Detail: 0}},
		{"norm half", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, half(3, 8).v(), nil, f(8).v(), nil, 0, nil, y.v())
		}, core.Status{Code: core.ErrFormat, Operand: 0, Detail: uint64(tensor.EncF16)}},
		{"norm layout", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, stepped(3, 8).v(), nil, f(8).v(), nil, 0, nil, y.v())
		}, core.Status{Code: core.ErrLayout, Operand: 0, Detail: 1}},
		{"norm eps", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), nil, -1, nil, y.v())
		},
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 6}},
		{"norm outputs", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), nil, 0, y.v(), y.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 4, Detail: 5}},
		{"norm sum is after", f(3, 8), func(y *operand) core.Status {
			after := f(3, 8)
			return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), after.v(), 0, after.v(), y.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 4, Detail: 3}},
		{"rank", f(3, 8), func(y *operand) core.Status { return core.Softmax(p, nil, f(2, 3, 8).v(), 1, y.v()) },
			core.Status{Code: core.ErrShape, Operand: 1, Detail: 2}},
		{"softmax scale", f(3, 8), func(y *operand) core.Status { return core.Softmax(p, nil, f(3, 8).v(), nan, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 3}},
		{"softcap", f(3, 8), func(y *operand) core.Status { return core.Softcap(p, nil, f(3, 8).v(), 0, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 3}},
		{"glu form", f(3, 8), func(y *operand) core.Status { return core.GLU(p, nil, f(3, 8).v(), f(3, 8).v(), 4, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 4}},
		{"glu up", f(3, 8), func(y *operand) core.Status { return core.GLU(p, nil, f(3, 8).v(), f(8).v(), 0, y.v()) },
			core.Status{Code: core.ErrShape, Operand: 1, Detail: 1}},
		{"add b", f(3, 8), func(y *operand) core.Status { return core.Add(p, nil, f(3, 8).v(), f(3).v(), y.v()) },
			core.Status{Code: core.ErrShape, Operand: 1, Detail: 0}},
		{"mul y is b", nil, func(*operand) core.Status {
			b := f(3, 8)
			return core.Mul(p, nil, f(3, 8).v(), b.v(), b.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 2, Detail: 1}},
		{"no pool", f(3, 8), func(y *operand) core.Status { return core.Add(nil, nil, f(3, 8).v(), f(3, 8).v(), y.v()) },
			core.NoPool},
		{"rope odd dims", f(2, 1, 8), func(y *operand) core.Status {
			bad := rope
			bad.Dims = 7
			return core.Rope(p, nil, f(2, 1, 8).v(), ints(2).v(), nil, bad, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: -1, Detail: 4}},
		{"rope dims", f(2, 1, 6), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 6).v(), ints(2).v(), nil, rope, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: -1, Detail: 4}},
		{"rope positions", f(2, 1, 8), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 8).v(), ints(3).v(), nil, rope, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 1, Detail: 0}},
		{"rope positions format", f(2, 1, 8), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 8).v(), f(2).v(), nil, rope, y.v())
		}, core.Status{Code: core.ErrFormat, Operand: 1, Detail: uint64(tensor.EncF32)}},
		{"rope factors", f(2, 1, 8), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 8).v(), ints(2).v(), f(3).v(), rope, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 2, Detail: 0}},
		{"store heads", f(1, 2, 4, 8), func(y *operand) core.Status {
			return core.KVStore(p, nil, f(2, 3, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, y.v(), f(1, 2, 4, 8).v())
		}, core.Status{Code: core.ErrShape, Operand: 0, Detail: 1}},
		{"store capacity", f(1, 2, 4, 8), func(y *operand) core.Status {
			return core.KVStore(p, nil, f(2, 2, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, y.v(), f(1, 2, 5, 8).v())
		}, core.Status{Code: core.ErrShape, Operand: 5, Detail: 2}},
		{"store mixed", f(1, 2, 4, 8), func(y *operand) core.Status {
			return core.KVStore(p, nil, f(2, 2, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, y.v(), half(1, 2, 4, 8).v())
		}, core.Status{Code: core.ErrFormat, Operand: 5, Detail: uint64(tensor.EncF16)}},
		{"store integers", nil, func(*operand) core.Status {
			c := m.make(tensor.EncI32, 0, 1, 2, 4, 8)
			return core.KVStore(p, nil, f(2, 2, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, c.v(), c.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 4, Detail: 5}},
		{"attend heads", f(2, 3, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 3, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 0, Detail: 1}},
		{"attend head_dim", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 7).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 0, Detail: 2}},
		{"attend y", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 7).v(), ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 5, Detail: 2}},
		{"attend caches absent", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), nil, ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: 2}},
		{"attend sequence", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), ints(2).v(), attend, y.v())
		}, core.Status{Code: core.ErrIndex, Operand: 4, Detail: 1}},
		{"attend scale", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), nil, tensor.AttendParams{Scale: nan}, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: -1, Detail: 0}},
		{"attend huge head", f(1, 1, 1<<18), func(y *operand) core.Status {
			return core.Attend(p, nil, f(1, 1, 1<<18).v(), f(1, 1, 1, 1<<18).v(), f(1, 1, 1, 1<<18).v(), ints(1).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrMemory, Operand: -1, Detail: 138413544}},
	} {
		var before []byte
		if c.y != nil {
			before = slices.Clone(c.y.mem)
		}
		st := c.run(c.y)
		if c.want.Code == core.ErrMemory {
			c.want.Detail = st.Detail // a size: only that it is there
		}
		if st != c.want {
			t.Errorf("%s: %+v (%s), want %+v", c.name, st, st, c.want)
		}
		if c.y != nil && !slices.Equal(before, c.y.mem) {
			t.Errorf("%s: the output was written", c.name)
		}
	}
	// A packed cache is refused by its encoding.
	kernelless := f(1, 2, 4, 32)
	kernelless.view.Format = tensor.Format{DType: tensor.F32, Encoding: tensor.Q8_0}
	kernelless.view.Layout.Block, kernelless.view.Layout.BlockAxis = 32, 3
	kernelless.view.Layout.Stride = [4]int64{8, 4, 1, 1}
	st := core.KVStore(p, nil, f(2, 2, 32).v(), f(2, 2, 32).v(), ints(2).v(), nil, kernelless.v(), f(1, 2, 4, 32).v())
	if st.Code != core.ErrNoKernel || st.Operand != 4 || st.Detail>>32 != uint64(tensor.Q8_0) {
		t.Error(st)
	}
	if !errors.As(st.Err(), new(core.Status)) || !strings.Contains(fmt.Sprint(st), "Q8_0") {
		t.Error(st)
	}
}

// Steps keep the first error; later operations do nothing.
func TestDenseOpsDoNothingBehindTheFirstErrorOfAStep(t *testing.T) {
	m := newMaker(t, 14)
	step, st := core.NewStep(0)
	m.ok(st)
	defer step.Destroy()
	p := densePool(t, 2)
	m.ok(step.Begin())
	a, b, y := m.make(tensor.EncF32, 0, 3, 8).fill(m.normal), m.make(tensor.EncF32, 0, 3, 8).fill(m.normal), m.make(tensor.EncF32, 0, 3, 8)
	m.ok(core.Add(p, step, a.v(), b.v(), y.v()))
	first := core.Softcap(p, step, a.v(), -1, y.v())
	before := slices.Clone(y.mem)
	if st := core.Mul(p, step, a.v(), b.v(), y.v()); st != first || !slices.Equal(before, y.mem) {
		t.Error(st)
	}
	if st, op := step.Status(); st != first || op != 1 {
		t.Error(st, op)
	}
	if st := step.End(); st != first {
		t.Error(st)
	}
}

// No operation allocates.
func TestDenseOpsAllocateNothing(t *testing.T) {
	m := newMaker(t, 15)
	a := m.attention(attentionShape{dim: 64, vDim: 64, kvHeads: 2, group: 2, capacity: 64, sequences: 1, e: tensor.EncF16,
		p: tensor.AttendParams{Scale: 1}, first: []int{20}, tokens: []int{1}})
	step, st := core.NewStep(0)
	m.ok(st)
	defer step.Destroy()
	p := densePool(t, 2)
	m.ok(step.Begin())
	if n := testing.AllocsPerRun(100, func() {
		core.Attend(p, step, a.q.v(), a.kc.v(), a.vc.v(), a.positions.v(), a.ids.v(), a.p, a.y.v())
		core.GLU(p, step, a.q.v(), a.q.v(), 0, a.y.v())
		core.Rope(p, step, a.q.v(), a.positions.v(), nil, tensor.RopeParams{Dims: 64, Base: 1e4, Scale: 1, AttnFactor: 1}, a.y.v())
	}); n != 0 {
		t.Error(n)
	}
	m.ok(step.End())
}
