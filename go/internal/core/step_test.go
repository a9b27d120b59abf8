package core

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newPool(t testing.TB, threads int) *Pool {
	t.Helper()
	p, st := NewPool(threads, 0)
	ok(t, st)
	t.Cleanup(p.Close)
	return p
}

func newStep(t testing.TB, roots int) *Step {
	t.Helper()
	s, st := NewStep(roots)
	ok(t, st)
	t.Cleanup(s.Destroy)
	return s
}

func exactlyOnce(t testing.TB, counts []uint32) {
	t.Helper()
	for i, n := range counts {
		if n != 1 {
			t.Fatalf("task %d ran %d times", i, n)
		}
	}
}

func TestRegionRunsEachTaskOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 7} {
		p := newPool(t, threads)
		if p.Threads() != threads {
			t.Error(p.Threads())
		}
		for _, tasks := range []int{0, 1, 2, 3, 7, 8, 1000} {
			for range 20 {
				counts := make([]uint32, tasks)
				shared, st := region(p, counts, 50, nil, 0)
				ok(t, st)
				if shared {
					t.Fatal("two tasks shared a scratch")
				}
				exactlyOnce(t, counts)
			}
		}
		time.Sleep(time.Millisecond) // the workers sleep now
		counts := make([]uint32, 100)
		_, st := region(p, counts, 5000, nil, 0)
		ok(t, st)
		exactlyOnce(t, counts)
	}
}

// While one caller's region stands still, a second one's runs to its end, alone; a third waits for either.
func TestSecondCallerRunsInline(t *testing.T) {
	p := newPool(t, 2)
	var release, third uint32
	var wg sync.WaitGroup
	first := make([]uint32, 4)
	wg.Go(func() {
		if _, st := region(p, first, 0, &release, 0); st.Code != OK {
			t.Error(st)
		}
	})
	time.Sleep(10 * time.Millisecond)
	for range 3 {
		counts := make([]uint32, 10)
		shared, st := region(p, counts, 10, nil, 0)
		ok(t, st)
		if shared {
			t.Error("the spare scratch is not spare")
		}
		exactlyOnce(t, counts)
	}
	// Now the second stands still, too: the third has nowhere to go.
	second := make([]uint32, 4)
	wg.Go(func() {
		if _, st := region(p, second, 0, &third, 0); st.Code != OK {
			t.Error(st)
		}
	})
	time.Sleep(10 * time.Millisecond)
	done := make(chan Status)
	go func() {
		_, st := region(p, make([]uint32, 3), 0, nil, 0)
		done <- st
	}()
	select {
	case <-done:
		t.Error("a third region ran beside two others")
	case <-time.After(20 * time.Millisecond):
	}
	atomic.StoreUint32(&third, 1)
	ok(t, <-done)
	atomic.StoreUint32(&release, 1)
	wg.Wait()
	exactlyOnce(t, first)
	exactlyOnce(t, second)
}

func TestRegionsOfManyCallers(t *testing.T) {
	p := newPool(t, 3)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for range 200 {
				counts := make([]uint32, 17)
				shared, st := region(p, counts, 20, nil, 0)
				if st.Code != OK || shared {
					t.Error(st, shared)
					return
				}
				for i, n := range counts {
					if n != 1 {
						t.Errorf("task %d ran %d times", i, n)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestPoolArguments(t *testing.T) {
	for _, threads := range []int{-1, 1025, 1 << 21} {
		if _, st := NewPool(threads, 0); st.Code != ErrArgument {
			t.Error(threads, st)
		}
	}
	if _, st := NewPool(1, 1<<62); st.Code != ErrMemory {
		t.Error(st)
	}
	p, st := NewPool(0, 0)
	ok(t, st)
	if p.Threads() < 1 || p.Threads() > runtime.NumCPU() {
		t.Error(p.Threads())
	}
	p.Close()
	x := view(t, allocate(t, 64), 0, f32, 4)
	is(t, Convert(p, nil, x, x), ErrClosed, PoolClosed.Detail)
	is(t, Convert(nil, nil, x, x), ErrArgument, NoPool.Detail)
	for _, p := range []*Pool{nil, new(Pool)} { // neither has threads
		p.Close()
		if _, st := region(p, nil, 0, nil, 0); st.Code == OK || p.Threads() != 0 {
			t.Error(st, p.Threads())
		}
	}
	if _, st := NewStep(1 << 16); st.Code != ErrArgument {
		t.Error(st)
	}
	var none *Step
	is(t, none.Begin(), ErrArgument, 0)
	is(t, none.End(), ErrArgument, 0)
}

func TestCallsDoNotAllocate(t *testing.T) {
	p := newPool(t, 2)
	s := newStep(t, 0)
	x, y := view(t, allocate(t, 256), 0, f32, 8, 8), view(t, allocate(t, 256), 0, f32, 8, 8)
	index := []int64{1, 2}
	operands := []*View{x, y}
	for name, call := range map[string]func(){
		"in a step": func() { s.Begin(); Convert(p, s, x, y); s.End() },
		"bare":      func() { Convert(p, nil, x, y) },
		"get":       func() { Get(x, index) },
		"select":    func() { Select(OpConvert, operands) },
		"check":     func() { Check(x) },
		"view":      func() { ViewOf(Storage{x.Cell, x.Generation}, 0, f32, shape8x8) },
		"pin":       func() { pin, _ := Pin(Storage{x.Cell, x.Generation}); Unpin(pin) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s: %v allocations per call", name, n)
		}
	}
}

var shape8x8 = shape(8, 8)

func BenchmarkBareConvert(b *testing.B) {
	p := newPool(b, 2)
	x, y := view(b, allocate(b, 256), 0, f32, 8), view(b, allocate(b, 256), 0, f32, 8)
	for b.Loop() {
		Convert(p, nil, x, y)
	}
}

func BenchmarkStepConvert(b *testing.B) {
	p, s := newPool(b, 2), newStep(b, 0)
	x, y := view(b, allocate(b, 256), 0, f32, 8), view(b, allocate(b, 256), 0, f32, 8)
	ok(b, s.Begin())
	for b.Loop() {
		Convert(p, s, x, y)
	}
	ok(b, s.End())
}

func BenchmarkRegion(b *testing.B) {
	p := newPool(b, 2)
	counts := make([]uint32, 8)
	for b.Loop() {
		region(p, counts, 100, nil, 0)
	}
}

// Close beside operations, and beside itself: those that have begun end as ever, later ones are refused, and the workers'
// memory is touched by nobody behind it.
func TestPoolCloseBesideOperations(t *testing.T) {
	x, y := view(t, allocate(t, 4<<12), 0, f32, 1<<12), view(t, allocate(t, 4<<12), 0, f32, 1<<12)
	for round := range 150 {
		p, st := NewPool(3, 0)
		ok(t, st)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					switch st := Convert(p, nil, x, y); st {
					case PoolClosed:
						if n := p.Threads(); n != 0 {
							t.Errorf("%d threads", n)
						}
						return
					default:
						if st.Code != OK {
							t.Error(st)
							return
						}
					}
				}
			})
		}
		time.Sleep(time.Duration(round%10) * 20 * time.Microsecond)
		wg.Go(p.Close)
		p.Close()
		is(t, Convert(p, nil, x, y), ErrClosed, PoolClosed.Detail)
		wg.Wait()
		p.Close()
	}
}

// Close returns only when the operation that runs has ended, and Threads does not wait for that.
func TestPoolCloseWaits(t *testing.T) {
	p := newPool(t, 2)
	var release uint32
	counts := make([]uint32, 4)
	ended := make(chan Status, 1)
	go func() {
		_, st := region(p, counts, 0, &release, 0)
		ended <- st
	}()
	for atomic.LoadUint32(&counts[1]) == 0 { // the region runs
		time.Sleep(time.Millisecond)
	}
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	for p.Threads() != 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-closed:
		t.Error("closed while a region ran")
	case <-time.After(20 * time.Millisecond):
	}
	atomic.StoreUint32(&release, 1)
	<-closed
	ok(t, <-ended)
	exactlyOnce(t, counts)
}
