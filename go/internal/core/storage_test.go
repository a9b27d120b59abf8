package core_test

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
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

func TestAllocate(t *testing.T) {
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
		_, st = core.Select(core.OpConvert, []*core.View{&stale[i], y})
		is(t, st, core.ErrClosed, stale[i].Storage)
	}
}

func TestForgedCells(t *testing.T) {
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

// left fails the test unless a closed storage has so many pins.
func left(t testing.TB, s core.Storage, want uint64) {
	t.Helper()
	if got, st := core.Left(s); st.Code != core.OK || got != want {
		t.Fatalf("%d pins left, %v, want %d", got, st, want)
	}
}

func TestCloseFreesAtTheLastUnpin(t *testing.T) {
	before := core.ReadCounters()
	s, st := core.Allocate(4096, 0)
	ok(t, st)
	m, st := core.MarkOpen(s)
	ok(t, st)
	pin, st := core.Pin(m) // through a mark: the root stays, too
	ok(t, st)
	second, st := core.Pin(s)
	ok(t, st)
	i, _ := core.InfoOf(s)
	if mark, _ := core.InfoOf(m); i.Pins != 2 || mark.Pins != 1 {
		t.Error(i.Pins, mark.Pins)
	}
	is(t, core.TryClose(s), core.ErrBusy, 2)
	ok(t, core.Check(view(t, s, 0, f32, 4)))
	_, st = core.Left(s)
	is(t, st, core.ErrArgument, 0) // it is open
	ok(t, core.Close(s, nil))
	left(t, s, 2)
	core.Memory(i.Address, 4096)[4095] = 1 // still there
	is(t, core.Close(s, nil), core.ErrClosed, i.ID)
	_, st = core.Pin(s)
	is(t, st, core.ErrClosed, i.ID)
	is(t, core.Unpin(s), core.ErrArgument, 0) // a storage is no pin
	left(t, s, 2)
	ok(t, core.Unpin(pin))
	is(t, core.Unpin(pin), core.ErrClosed, i.ID) // and takes no other
	left(t, s, 1)
	ok(t, core.Unpin(second))
	_, st = core.Left(s)
	is(t, st, core.ErrClosed, i.ID)
	is(t, core.Unpin(core.Storage{}), core.ErrArgument, 0)
	is(t, core.Unpin(allocate(t, 64)), core.ErrArgument, 0)
	ok(t, core.TryClose(allocate(t, 64)))
	if after := core.ReadCounters(); after.OffHeapBytes != before.OffHeapBytes+64 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// Within a step nothing has to wait for the step itself: its end frees, or the close when the step is handed in.
func TestCloseWithinAStep(t *testing.T) {
	pool, step := newPool(t, 1), newStep(t, 0)
	y := view(t, allocate(t, 64), 0, f32, 4)
	for _, handed := range []*core.Step{nil, step} {
		s := allocate(t, 64)
		x := view(t, s, 0, f32, 4)
		ok(t, step.Begin())
		ok(t, core.Convert(pool, step, x, y))
		ok(t, core.Close(s, handed))
		if handed == nil {
			left(t, s, 1)
		}
		is(t, core.Convert(pool, step, x, y), core.ErrClosed, x.Storage)
		is(t, step.End(), core.ErrClosed, x.Storage)
		_, st := core.Left(s)
		is(t, st, core.ErrClosed, x.Storage)
	}
}

func TestStepPinsOnceAndOwnsItsClose(t *testing.T) {
	pool := newPool(t, 1)
	s := newStep(t, 0)
	a, b := allocate(t, 64), allocate(t, 64)
	x, y := view(t, a, 0, f32, 4), view(t, b, 0, f32, 4)
	is(t, core.Convert(pool, s, x, y), core.ErrArgument, 1) // does not run
	ok(t, s.Begin())
	is(t, s.Begin(), core.ErrArgument, 0)
	for range 3 {
		ok(t, core.Convert(pool, s, x, y))
	}
	if i, _ := core.InfoOf(a); i.Pins != 1 {
		t.Errorf("%d pins after three operations", i.Pins)
	}
	is(t, core.TryClose(a), core.ErrBusy, 1)
	ok(t, core.Close(a, s)) // takes the step's own pin
	is(t, core.Convert(pool, s, x, y), core.ErrClosed, x.Storage)
	is(t, core.Convert(pool, s, y, y), core.ErrClosed, x.Storage) // the first error stays
	if st, op := s.Status(); st.Code != core.ErrClosed || op != 3 {
		t.Errorf("%v at operation %d", st, op)
	}
	is(t, s.End(), core.ErrClosed, x.Storage)
	is(t, s.End(), core.ErrArgument, 0)
	if i, _ := core.InfoOf(b); i.Pins != 0 {
		t.Errorf("%d pins after the step", i.Pins)
	}
	ok(t, s.Begin())
	ok(t, s.End())
}

func TestStepRefusesMoreRootsThanItWasMadeFor(t *testing.T) {
	pool := newPool(t, 1)
	s := newStep(t, 40)
	ok(t, s.Begin())
	y := view(t, allocate(t, 64), 0, f32, 4)
	var storages []core.Storage
	for i := range 40 {
		storages = append(storages, allocate(t, 64))
		st := core.Convert(pool, s, view(t, storages[i], 0, f32, 4), y)
		if i == 39 { // y's is the fortieth
			is(t, st, core.ErrMemory, 40)
			break
		}
		ok(t, st)
	}
	for i, a := range storages[:39] {
		if info, _ := core.InfoOf(a); info.Pins != 1 {
			t.Fatalf("storage %d: %d pins", i, info.Pins)
		}
	}
	ok(t, core.Close(storages[7], s)) // leaves the others findable
	for i, a := range storages {
		info, _ := core.InfoOf(a)
		if want := uint64(1); i != 7 && i != 39 && info.Pins != want {
			t.Fatalf("storage %d: %d pins", i, info.Pins)
		}
	}
	is(t, s.End(), core.ErrMemory, 40)
	for i, a := range storages {
		if info, st := core.InfoOf(a); i != 7 && (st.Code != core.OK || info.Pins != 0) {
			t.Fatalf("storage %d: %d pins, %v", i, info.Pins, st)
		}
	}
}

// Many goroutines use, close and make storages in the same few slots. What they read must be their
// own storage's bytes or a clean error.
func TestConcurrentCloseAgainstPins(t *testing.T) {
	pool := newPool(t, 2)
	before := core.ReadCounters()
	type shared struct {
		storage core.Storage
		view    core.View
	}
	var current [4]atomic.Pointer[shared]
	make1 := func(i int) *shared {
		s, st := core.Allocate(64, 0)
		if st.Code != core.OK {
			t.Error(st)
		}
		v, st := core.ViewOf(s, 0, f32, shape(4))
		if st.Code != core.OK {
			t.Error(st)
		}
		info, _ := core.InfoOf(s)
		copy(core.Memory(info.Address, 16), unsafe.Slice((*byte)(unsafe.Pointer(&[4]float32{float32(i), 0, 0, float32(i)})), 16))
		return &shared{s, v}
	}
	for i := range current {
		current[i].Store(make1(i))
	}
	var users, closers sync.WaitGroup
	var stop atomic.Bool
	var used, refused atomic.Int64
	for range 6 {
		users.Go(func() {
			step, st := core.NewStep(0)
			if st.Code != core.OK {
				t.Error(st)
				return
			}
			defer step.Destroy()
			room, _ := core.Allocate(64, 0)
			defer core.Close(room, nil)
			y, _ := core.ViewOf(room, 0, f32, shape(4))
			info, _ := core.InfoOf(room)
			for n := 0; !stop.Load(); n++ {
				i := n % len(current)
				v := current[i].Load().view
				s := step
				if n%3 == 0 {
					s = nil // a bare call
				} else if st := s.Begin(); st.Code != core.OK {
					t.Error(st)
				}
				st := core.Convert(pool, s, &v, &y)
				got := *(*[4]float32)(unsafe.Pointer(unsafe.SliceData(core.Memory(info.Address, 16))))
				if s != nil {
					s.End()
				}
				switch st.Code {
				case core.OK:
					used.Add(1)
					if want := [4]float32{float32(i), 0, 0, float32(i)}; got != want {
						t.Errorf("read %v, want %v", got, want)
						return
					}
				case core.ErrClosed:
					refused.Add(1)
				default:
					t.Error(st)
					return
				}
			}
		})
	}
	for c := range 2 {
		closers.Go(func() {
			for n := range 1500 {
				i := c + 2*(n%2)
				old := current[i].Load()
				fresh := make1(i)
				var st core.Status
				switch n % 2 {
				case 0:
					st = core.Close(old.storage, nil)
				default:
					for st = core.TryClose(old.storage); st.Code == core.ErrBusy; st = core.TryClose(old.storage) {
					}
				}
				if st.Code != core.OK {
					t.Error(st)
				}
				runtime.Gosched() // users meet the closed one
				current[i].Store(fresh)
			}
		})
	}
	closers.Wait()
	stop.Store(true)
	users.Wait()
	for i := range current {
		ok(t, core.Close(current[i].Load().storage, nil))
	}
	if used.Load() == 0 || refused.Load() == 0 {
		t.Error("the test shows nothing")
	}
	t.Logf("%d reads, %d refused", used.Load(), refused.Load())
	if after := core.ReadCounters(); after.Storages != before.Storages || after.OffHeapBytes != before.OffHeapBytes {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func TestMarkReleaseWaitsForReaders(t *testing.T) {
	root := allocate(t, 64)
	m, st := core.MarkOpen(root)
	ok(t, st)
	pin, st := core.Pin(m)
	ok(t, st)
	done := make(chan core.Status)
	go func() { done <- core.MarkRelease(m, nil) }()
	for core.Live(m.Cell, m.Generation) {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-done:
		t.Fatal("released under a pin")
	case <-time.After(20 * time.Millisecond):
	}
	ok(t, core.Unpin(pin))
	ok(t, <-done)
}

func TestBorrow(t *testing.T) {
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

func TestReleaseRunsOnceAtTheLastPin(t *testing.T) {
	room := allocate(t, 128)
	i, _ := core.InfoOf(room)
	count := i.Address + 64
	released := func() uint32 { return *(*uint32)(unsafe.Pointer(unsafe.SliceData(core.Memory(count, 4)))) }
	pool, step := newPool(t, 1), newStep(t, 0)
	y := view(t, allocate(t, 64), 0, f32, 4)
	for n, end := range []func(s core.Storage){
		func(s core.Storage) { ok(t, core.Close(s, nil)) },
		func(s core.Storage) { ok(t, core.TryClose(s)) },
		func(s core.Storage) {
			pin, st := core.Pin(s)
			ok(t, st)
			ok(t, core.Close(s, nil))
			if released() != 2 {
				t.Error("released under a pin")
			}
			ok(t, core.Unpin(pin))
		},
		func(s core.Storage) { // closed inside of a step that uses it
			ok(t, step.Begin())
			x := view(t, s, 0, f32, 4)
			ok(t, core.Convert(pool, step, x, y))
			ok(t, core.Close(s, nil))
			is(t, core.Convert(pool, step, x, y), core.ErrClosed, x.Storage)
			if released() != 3 {
				t.Error("released inside of the step")
			}
			step.End()
		},
	} {
		s, st := coretest.BorrowReleased(i.Address, 64, count)
		ok(t, st)
		end(s)
		if released() != uint32(n+1) {
			t.Errorf("%d ends, %d releases", n+1, released())
		}
	}
}

// ---- mapped files ----

// mapped writes float32(0), float32(1), … into a file from byte head on and maps all of them.
func mapped(t testing.TB, head, n int) (*os.File, core.Storage) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	if _, err := f.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*n), int64(head)); err != nil {
		t.Fatal(err)
	}
	ok(t, core.FaultGuardInstall())
	ok(t, core.FaultGuardInstall())
	s, st := core.Map(int(f.Fd()), uint64(head), uint64(4*n))
	ok(t, st)
	t.Cleanup(func() { core.Close(s, nil) })
	return f, s
}

func TestMap(t *testing.T) {
	pool := newPool(t, 2)
	for _, head := range []int{0, 1, 4095, 4096, 12345} {
		f, s := mapped(t, head, 5000)
		i, st := core.InfoOf(s)
		ok(t, st)
		if i.Domain != tensor.Mapped || !i.ReadOnly || i.Bytes != 20000 || int(i.Address)%4096 != head%4096 {
			t.Errorf("%+v", i)
		}
		f.Close() // the core has its own
		x, y := view(t, s, 0, f32, 5000), view(t, allocate(t, 20000), 0, f32, 5000)
		ok(t, core.Convert(pool, nil, x, y))
		for _, at := range []int64{0, 1, 4999} {
			if v, st := core.Get(y, []int64{at}); st.Code != core.OK || v != float64(at) {
				t.Error(at, v, st)
			}
		}
		ok(t, core.Verify(s))
		for advice := range uint32(4) {
			ok(t, core.Advise(s, 17, 19000, advice))
		}
		is(t, core.Advise(s, 0, 1, 4), core.ErrArgument, 3)
		is(t, core.Advise(s, 1, 20000, 0), core.ErrBounds, 20001)
		ok(t, core.Convert(pool, nil, x, y))
		if n, st := core.Resident(s); st.Code != core.OK || n != 20000 {
			t.Error(n, st) // just read
		}
		ok(t, core.Close(s, nil))
	}
	f, s := mapped(t, 0, 100)
	for _, c := range []struct{ offset, length uint64 }{{0, 401}, {401, 1}, {math.MaxUint64, 2}, {1, math.MaxUint64}} {
		if _, st := core.Map(int(f.Fd()), c.offset, c.length); st.Code != core.ErrBounds {
			t.Error(c, st)
		}
	}
	if _, st := core.Map(-1, 0, 1); st.Code != core.ErrIO || st.Detail != 9 {
		t.Error(st)
	}
	_, st := core.Resident(allocate(t, 64))
	is(t, st, core.ErrArgument, 0)
	x := view(t, s, 0, f32, 100)
	if st := core.Convert(pool, nil, view(t, allocate(t, 400), 0, f32, 100), x); st.Code != core.ErrReadOnly {
		t.Error(st)
	}
}

func TestTruncatedFileIsAnError(t *testing.T) {
	for _, threads := range []int{1, 2} {
		pool := newPool(t, threads)
		for range 3 { // the second fault must be as harmless as the first
			const n = 1 << 18
			f, s := mapped(t, 0, n)
			x, y := view(t, s, 0, f32, n), view(t, allocate(t, 4*n), 0, f32, n)
			ok(t, core.Convert(pool, nil, x, y))
			if err := f.Truncate(8192); err != nil {
				t.Fatal(err)
			}
			st := core.Convert(pool, nil, x, y)
			if st.Code != core.ErrFault || st.Detail < uint64(x.Data)+8192 || st.Detail >= uint64(x.Data)+4*n {
				t.Fatalf("%+v: %v", st, st)
			}
			_, st = core.Get(x, []int64{n - 1})
			if st.Code != core.ErrFault {
				t.Fatal(st)
			}
			if _, st := core.Get(x, []int64{100}); st.Code != core.ErrChanged { // still there, and no longer to be believed
				t.Fatal(st)
			}
			w := view(t, s, 0, f32, 512, 512)
			z := view(t, allocate(t, 4*512*512), 0, f32, 512, 512)
			if st := core.ReferenceMatMulT(w, w, z, nil); st.Code != core.ErrFault {
				t.Fatal(st)
			}
			is(t, core.Verify(s), core.ErrChanged, x.Storage)
			ok(t, core.Close(s, nil))
		}
		// The pool still works.
		counts := make([]uint32, 100)
		_, st := coretest.Region(pool, counts, 0, nil, 0)
		ok(t, st)
		exactlyOnce(t, counts)
	}
}

// Only workers touch the page that is gone.
func TestFaultOfAWorker(t *testing.T) {
	pool := newPool(t, 3)
	for range 5 {
		f, s := mapped(t, 0, 4096)
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		info, _ := core.InfoOf(s)
		_, st := coretest.Region(pool, make([]uint32, 64), 0, nil, info.Address+5000)
		is(t, st, core.ErrFault, uint64(info.Address+5000))
		ok(t, core.Close(s, nil))
	}
}

func TestTruncationWhileOperationsRun(t *testing.T) {
	pool := newPool(t, 2)
	const n = 1 << 16
	f, s := mapped(t, 0, n)
	x, y := view(t, s, 0, f32, n), view(t, allocate(t, 4*n), 0, f32, n)
	step := newStep(t, 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = f.Truncate([]int64{4096, 4 * n}[i%2])
			}
		}
	})
	faults, changes := 0, 0
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); {
		ok(t, step.Begin())
		core.Convert(pool, step, x, y)
		switch st := step.End(); st.Code {
		case core.ErrFault:
			faults++
		case core.ErrChanged:
			changes++
		case core.OK: // between two truncations, before the first
		default:
			t.Fatal(st)
		}
	}
	close(stop)
	wg.Wait()
	if faults+changes == 0 {
		t.Error("nothing was noticed")
	}
	t.Logf("%d faults, %d changes", faults, changes)
}

// Bytes behind the new end within its last page read as zeros without a fault.
func TestChangeWithinThePageIsNoticedAtTheEndOfTheStep(t *testing.T) {
	pool := newPool(t, 1)
	f, s := mapped(t, 0, 1000)
	x, y := view(t, s, 0, f32, 1000), view(t, allocate(t, 4000), 0, f32, 1000)
	step := newStep(t, 0)
	ok(t, step.Begin())
	ok(t, core.Convert(pool, step, x, y))
	if err := f.Truncate(3000); err != nil {
		t.Fatal(err)
	}
	ok(t, core.Convert(pool, step, x, y))
	is(t, step.End(), core.ErrChanged, x.Storage)
	// A rewrite of the same length shows in the time.
	f, s = mapped(t, 0, 1000)
	ok(t, core.Verify(s))
	if err := os.Chtimes(f.Name(), time.Now(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if st := core.Verify(s); st.Code != core.ErrChanged {
		t.Error(st)
	}
}
