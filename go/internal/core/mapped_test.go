package core_test

import (
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

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

func TestMapReadsTheFile(t *testing.T) {
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
func TestFaultOfAWorkerIsAnError(t *testing.T) {
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

func TestTruncationWhileOperationsRunIsAnError(t *testing.T) {
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
