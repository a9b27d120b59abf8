package core_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
)

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
func TestPinsOutliveConcurrentCloses(t *testing.T) {
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
