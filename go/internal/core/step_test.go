package core_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

func newPool(t testing.TB, threads int) *core.Pool {
	t.Helper()
	p, st := core.NewPool(threads, 0)
	ok(t, st)
	t.Cleanup(p.Close)
	return p
}

func newStep(t testing.TB, roots int) *core.Step {
	t.Helper()
	s, st := core.NewStep(roots)
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
				shared, st := coretest.Region(p, counts, 50, nil, 0)
				ok(t, st)
				if shared {
					t.Fatal("two tasks shared a scratch")
				}
				exactlyOnce(t, counts)
			}
		}
		time.Sleep(time.Millisecond) // the workers sleep now
		counts := make([]uint32, 100)
		_, st := coretest.Region(p, counts, 5000, nil, 0)
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
		if _, st := coretest.Region(p, first, 0, &release, 0); st.Code != core.OK {
			t.Error(st)
		}
	})
	time.Sleep(10 * time.Millisecond)
	for range 3 {
		counts := make([]uint32, 10)
		shared, st := coretest.Region(p, counts, 10, nil, 0)
		ok(t, st)
		if shared {
			t.Error("the spare scratch is not spare")
		}
		exactlyOnce(t, counts)
	}
	// Now the second stands still, too: the third has nowhere to go.
	second := make([]uint32, 4)
	wg.Go(func() {
		if _, st := coretest.Region(p, second, 0, &third, 0); st.Code != core.OK {
			t.Error(st)
		}
	})
	time.Sleep(10 * time.Millisecond)
	done := make(chan core.Status)
	go func() {
		_, st := coretest.Region(p, make([]uint32, 3), 0, nil, 0)
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

func TestRegionsOfManyCallersShareAPool(t *testing.T) {
	p := newPool(t, 3)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for range 200 {
				counts := make([]uint32, 17)
				shared, st := coretest.Region(p, counts, 20, nil, 0)
				if st.Code != core.OK || shared {
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

func TestPoolRefusesArguments(t *testing.T) {
	for _, threads := range []int{-1, 1025, 1 << 21} {
		if _, st := core.NewPool(threads, 0); st.Code != core.ErrArgument {
			t.Error(threads, st)
		}
	}
	if _, st := core.NewPool(1, 1<<62); st.Code != core.ErrMemory {
		t.Error(st)
	}
	p, st := core.NewPool(0, 0)
	ok(t, st)
	if p.Threads() < 1 || p.Threads() > runtime.NumCPU() {
		t.Error(p.Threads())
	}
	p.Close()
	x := view(t, allocate(t, 64), 0, f32, 4)
	is(t, core.Convert(p, nil, x, x), core.ErrClosed, core.PoolClosed.Detail)
	is(t, core.Convert(nil, nil, x, x), core.ErrArgument, core.NoPool.Detail)
	for _, p := range []*core.Pool{nil, new(core.Pool)} { // neither has threads
		p.Close()
		if _, st := coretest.Region(p, nil, 0, nil, 0); st.Code == core.OK || p.Threads() != 0 {
			t.Error(st, p.Threads())
		}
	}
	if _, st := core.NewStep(1 << 16); st.Code != core.ErrArgument {
		t.Error(st)
	}
	var none *core.Step
	is(t, none.Begin(), core.ErrArgument, 0)
	is(t, none.End(), core.ErrArgument, 0)
}

func TestCallsDoNotAllocate(t *testing.T) {
	p := newPool(t, 2)
	s := newStep(t, 0)
	x, y := view(t, allocate(t, 256), 0, f32, 8, 8), view(t, allocate(t, 256), 0, f32, 8, 8)
	index := []int64{1, 2}
	operands := []*core.View{x, y}
	for name, call := range map[string]func(){
		"in a step": func() { s.Begin(); core.Convert(p, s, x, y); s.End() },
		"bare":      func() { core.Convert(p, nil, x, y) },
		"get":       func() { core.Get(x, index) },
		"select":    func() { core.Select(tensor.OpConvert, operands) },
		"check":     func() { core.Check(x) },
		"view":      func() { core.ViewOf(core.Storage{x.Cell, x.Generation}, 0, f32, shape8x8) },
		"pin":       func() { pin, _ := core.Pin(core.Storage{x.Cell, x.Generation}); core.Unpin(pin) },
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
		core.Convert(p, nil, x, y)
	}
}

func BenchmarkStepConvert(b *testing.B) {
	p, s := newPool(b, 2), newStep(b, 0)
	x, y := view(b, allocate(b, 256), 0, f32, 8), view(b, allocate(b, 256), 0, f32, 8)
	ok(b, s.Begin())
	for b.Loop() {
		core.Convert(p, s, x, y)
	}
	ok(b, s.End())
}

func BenchmarkRegion(b *testing.B) {
	p := newPool(b, 2)
	counts := make([]uint32, 8)
	for b.Loop() {
		coretest.Region(p, counts, 100, nil, 0)
	}
}

// Close beside operations, and beside itself: those that have begun end as ever, later ones are refused, and the workers'
// memory is touched by nobody behind it.
func TestPoolClosesBesideOperations(t *testing.T) {
	x, y := view(t, allocate(t, 4<<12), 0, f32, 1<<12), view(t, allocate(t, 4<<12), 0, f32, 1<<12)
	for round := range 150 {
		p, st := core.NewPool(3, 0)
		ok(t, st)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					switch st := core.Convert(p, nil, x, y); st {
					case core.PoolClosed:
						if n := p.Threads(); n != 0 {
							t.Errorf("%d threads", n)
						}
						return
					default:
						if st.Code != core.OK {
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
		is(t, core.Convert(p, nil, x, y), core.ErrClosed, core.PoolClosed.Detail)
		wg.Wait()
		p.Close()
	}
}

// Close returns only when the operation that runs has ended, and Threads does not wait for that.
func TestPoolCloseWaits(t *testing.T) {
	p := newPool(t, 2)
	var release uint32
	counts := make([]uint32, 4)
	ended := make(chan core.Status, 1)
	go func() {
		_, st := coretest.Region(p, counts, 0, &release, 0)
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
