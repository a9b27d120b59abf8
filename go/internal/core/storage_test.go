package core_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// ok fails the test unless a status is OK.
func ok(t testing.TB, st core.Status) {
	t.Helper()
	if st.Code != core.OK {
		t.Fatal(st)
	}
}

// is fails the test unless a status has a code and a detail.
func is(t testing.TB, st core.Status, code int32, detail uint64) {
	t.Helper()
	if st.Code != code || st.Detail != detail {
		t.Fatalf("%+v (%v), want code %d, detail %d", st, st, code, detail)
	}
}

func shape(dims ...int64) tensor.Shape {
	s := tensor.Shape{Rank: uint8(len(dims))}
	copy(s.Dims[:], dims)
	return s
}

// allocate is a storage that the test closes at its end, when it is still open.
func allocate(t testing.TB, bytes uint64) core.Storage {
	t.Helper()
	s, st := core.Allocate(bytes, 0)
	ok(t, st)
	t.Cleanup(func() { core.Close(s, nil) })
	return s
}

func view(t testing.TB, s core.Storage, byte uint64, e tensor.Encoding, dims ...int64) *core.View {
	t.Helper()
	v, st := core.ViewOf(s, byte, e, shape(dims...))
	ok(t, st)
	return &v
}

const f32 = tensor.Encoding(tensor.F32)

func TestAllocateGivesAlignedZeros(t *testing.T) {
	for _, c := range []struct{ bytes, alignment, aligned uint64 }{
		{1, 0, 64}, {100, 1, 64}, {4096, 4096, 4096}, {5, 2 << 20, 2 << 20}, {2 << 20, 0, 2 << 20}, {5<<20 + 3, 64, 2 << 20},
	} {
		s, st := core.Allocate(c.bytes, c.alignment)
		ok(t, st)
		i, st := core.InfoOf(s)
		ok(t, st)
		if i.Bytes != c.bytes || uint64(i.Address)%c.aligned != 0 || i.Domain != tensor.OffHeap || i.ReadOnly || i.IsMark || i.Pins != 0 {
			t.Errorf("%+v: %+v", c, i)
		}
		for _, b := range core.Memory(i.Address, int(c.bytes)) {
			if b != 0 {
				t.Fatal("not zeroed")
			}
		}
		ok(t, core.Close(s, nil))
	}
	for _, c := range []struct {
		bytes, alignment uint64
		code             int32
		detail           uint64
	}{
		{0, 0, core.ErrArgument, 0}, {1, 3, core.ErrArgument, 1}, {1, 4 << 20, core.ErrArgument, 1},
		{math.MaxUint64, 0, core.ErrMemory, math.MaxUint64}, {math.MaxInt64, 64, core.ErrMemory, math.MaxInt64}, {1 << 60, 0, core.ErrMemory, 1 << 60},
	} {
		_, st := core.Allocate(c.bytes, c.alignment)
		is(t, st, c.code, c.detail)
	}
}

func TestCountersFollowStorages(t *testing.T) {
	before := core.ReadCounters()
	a, _ := core.Allocate(1000, 0)
	b, _ := core.Borrow(make([]byte, 50), core.DomainHeap, false)
	during := core.ReadCounters()
	if during.Storages != before.Storages+2 || during.OffHeapBytes != before.OffHeapBytes+1000 || during.HeapBytes != before.HeapBytes+50 {
		t.Errorf("%+v, then %+v", before, during)
	}
	ok(t, core.Close(a, nil))
	ok(t, core.Close(b, nil))
	after := core.ReadCounters()
	after.Slots = before.Slots
	if after != before {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func TestReusedSlotRefusesOldHandles(t *testing.T) {
	pool := newPool(t, 1)
	var stale []core.View
	cells := map[uintptr]int{}
	for range 50 {
		s, st := core.Allocate(64, 0)
		ok(t, st)
		cells[s.Cell]++
		stale = append(stale, *view(t, s, 0, f32, 4))
		id, _ := core.InfoOf(s)
		ok(t, core.Close(s, nil))
		is(t, core.Close(s, nil), core.ErrClosed, id.ID)
		is(t, core.TryClose(s), core.ErrClosed, id.ID)
		is(t, core.Verify(s), core.ErrClosed, id.ID)
		is(t, core.Reset(s, nil), core.ErrClosed, id.ID)
		_, st = core.Pin(s)
		is(t, st, core.ErrClosed, id.ID)
		_, st = core.MarkOpen(s)
		is(t, st, core.ErrClosed, id.ID)
	}
	if len(cells) == 50 {
		t.Error("no slot was used again: the test shows nothing")
	}
	// All of them against one that is open, in whatever slot it got.
	y := view(t, allocate(t, 64), 0, f32, 4)
	for i := range stale {
		if core.Live(stale[i].Cell, stale[i].Generation) {
			t.Fatal("live")
		}
		for operand, st := range []core.Status{core.Convert(pool, nil, &stale[i], y), core.Convert(pool, nil, y, &stale[i])} {
			is(t, st, core.ErrClosed, stale[i].Storage)
			if int(st.Operand) != operand {
				t.Fatalf("blames operand %d", st.Operand)
			}
		}
		_, st := core.Get(&stale[i], []int64{0})
		is(t, st, core.ErrClosed, stale[i].Storage)
		is(t, core.ReferenceMatMulT(&stale[i], y, y, nil), core.ErrClosed, stale[i].Storage)
		_, st = core.Select(tensor.OpConvert, []*core.View{&stale[i], y})
		is(t, st, core.ErrClosed, stale[i].Storage)
	}
}

func TestForgedCellsAreRefused(t *testing.T) {
	s := allocate(t, 64)
	good := view(t, s, 0, f32, 4)
	word := new(uint64)
	*word = good.Generation
	const cellField = uint64(unsafe.Offsetof(core.View{}.Cell))
	for name, cell := range map[string]uintptr{
		"nil": 0, "small": 1, "unaligned": good.Cell + 8, "half a slot": good.Cell + 128, "Go memory": uintptr(unsafe.Pointer(word)),
		"behind the slab": good.Cell + 1<<30, "before the slab": good.Cell - 1<<30, "all ones": ^uintptr(0),
	} {
		v := *good
		v.Cell = cell
		if st := core.Check(&v); st.Code != core.ErrArgument || st.Operand != 0 || st.Detail != cellField {
			t.Errorf("%s: %+v", name, st)
		}
		h := core.Storage{cell, good.Generation}
		if st := core.Close(h, nil); st.Code != core.ErrArgument {
			t.Errorf("%s: close: %+v", name, st)
		}
		if st := core.Unpin(h); st.Code != core.ErrArgument {
			t.Errorf("%s: unpin: %+v", name, st)
		}
		if core.Live(cell, good.Generation) {
			t.Errorf("%s is live", name)
		}
	}
	for _, g := range []uint64{0, good.Generation - 1, good.Generation + 1, good.Generation + 2, math.MaxUint64} {
		v := *good
		v.Generation = g
		is(t, core.Check(&v), core.ErrClosed, v.Storage)
	}
	ok(t, core.Check(good))
	// The generation that a closed slot holds is nobody's.
	ok(t, core.Close(s, nil))
	v := *good
	v.Generation++
	is(t, core.Check(&v), core.ErrClosed, v.Storage)
}

func TestMarksNest(t *testing.T) {
	root := allocate(t, 1024)
	open := func(of core.Storage) core.Storage {
		m, st := core.MarkOpen(of)
		ok(t, st)
		return m
	}
	v0 := view(t, root, 0, f32, 4)
	live := func(views ...*core.View) (n int) {
		for _, v := range views {
			if core.Check(v).Code == core.OK {
				n++
			}
		}
		return n
	}
	a := open(root)
	va := view(t, a, 0, f32, 4)
	b := open(root)
	vb := view(t, b, 16, f32, 4)
	c := open(root)
	vc := view(t, c, 32, f32, 4)
	if info, st := core.InfoOf(c); st.Code != core.OK || !info.IsMark || info.Bytes != 1024 || info.ID != v0.Storage {
		t.Errorf("%+v %v", info, st)
	}
	if live(v0, va, vb, vc) != 4 {
		t.Fatal("all are open")
	}
	ok(t, core.MarkRelease(b, nil))
	if live(v0, va) != 2 || live(vb, vc) != 0 {
		t.Error("release of b ends b and c, not a")
	}
	is(t, core.MarkRelease(c, nil), core.ErrClosed, v0.Storage)
	d := open(root)
	vd := view(t, d, 48, f32, 4)
	old := a
	ok(t, core.MarkRenew(&a, nil))
	if live(va, vd) != 0 || live(v0) != 1 || a == old || a.Cell != old.Cell {
		t.Error("renewal ends the views of a and the marks inside, and keeps the slot")
	}
	if live(view(t, a, 0, f32, 4)) != 1 {
		t.Error("a is still open")
	}
	if _, st := core.ViewOf(old, 0, f32, shape(4)); st.Code != core.ErrClosed {
		t.Error("by its old generation it is not")
	}
	e := open(root)
	ok(t, core.Reset(root, nil))
	if live(view(t, root, 0, f32, 4), v0) != 2 {
		t.Error("the root stays open, and its own views")
	}
	is(t, core.MarkRelease(a, nil), core.ErrClosed, v0.Storage)
	is(t, core.MarkRelease(e, nil), core.ErrClosed, v0.Storage)
	// A root is no mark and a mark no root.
	is(t, core.MarkRelease(root, nil), core.ErrArgument, 0)
	f := open(root)
	is(t, core.Close(f, nil), core.ErrArgument, 0)
	_, st := core.MarkOpen(f)
	is(t, st, core.ErrArgument, 0)
	vf := view(t, f, 0, f32, 4)
	ok(t, core.Close(root, nil))
	if live(vf, v0) != 0 {
		t.Error("closing the root ends everything")
	}
}

func TestBorrowLeavesTheBytesToTheirOwner(t *testing.T) {
	memory := make([]byte, 64)
	s, st := core.Borrow(memory[3:], core.DomainHeap, true)
	ok(t, st)
	x := view(t, s, 1, f32, 4)
	if x.Data != uintptr(unsafe.Pointer(&memory[4])) {
		t.Error("not where it is")
	}
	pool := newPool(t, 1)
	st = core.Convert(pool, nil, view(t, allocate(t, 16), 0, f32, 4), x)
	is(t, st, core.ErrReadOnly, x.Storage)
	if st.Operand != 1 {
		t.Error(st.Operand)
	}
	ok(t, core.Close(s, nil))
	_, st = core.Borrow(nil, core.DomainHeap, false)
	is(t, st, core.ErrArgument, 0)
	_, st = core.Borrow(memory, 2, false)
	is(t, st, core.ErrArgument, 2)
	if _, st = core.Borrow(memory, 3, false); st.Code != core.ErrNoKernel {
		t.Error("the device domain has no implementation:", st)
	}
}
