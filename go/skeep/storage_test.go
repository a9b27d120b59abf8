package skeep

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

var (
	heap    = WithSpec(tensor.AllocationSpec{Domain: tensor.Heap})
	offheap = WithSpec(tensor.AllocationSpec{Domain: tensor.OffHeap})
)

// requireError checks the sentinel and the names in an error.
func requireError(t *testing.T, err, is error, storage, tensor string) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, is)
	require.Equal(t, storage, e.Storage)
	require.Equal(t, tensor, e.Tensor)
	require.Contains(t, err.Error(), storage)
	require.Contains(t, err.Error(), tensor)
}

func TestPlacementIsTheResolvers(t *testing.T) {
	for bytes, want := range map[int64]tensor.Domain{
		1: tensor.Heap, resolver.DefaultThreshold - 1: tensor.Heap, resolver.DefaultThreshold: tensor.OffHeap,
	} {
		s, err := Allocate("x", bytes)
		require.NoError(t, err)
		need := resolver.Need{Name: "x", Bytes: bytes, Scope: tensor.Ambient}
		spec := resolver.Place(need, resolver.Profile{Threshold: resolver.DefaultThreshold}, resolver.Platform{})
		assert.Equal(t, spec, s.Spec())
		assert.Equal(t, want, s.Domain(), bytes)
		assert.Zero(t, s.address%64)
		assert.Equal(t, bytes, s.Size())
		zeros := make([]byte, bytes)
		got := bytes1(bytes)
		_, err = s.ReadAt(got, 0)
		require.NoError(t, err)
		assert.True(t, string(zeros) == string(got), "not zeroed")
		require.NoError(t, s.Close())
	}
	s, err := Allocate("x", 4096, WithThreshold(4096))
	require.NoError(t, err)
	assert.Equal(t, tensor.OffHeap, s.Domain())
	require.NoError(t, s.Close())
	for _, domain := range []tensor.Domain{tensor.Heap, tensor.OffHeap} {
		s, err := Allocate("x", 100, WithSpec(tensor.AllocationSpec{Domain: domain, Alignment: 4096}))
		require.NoError(t, err)
		assert.Zero(t, s.address%4096)
		require.NoError(t, s.Close())
	}
}

// bytes1 is a buffer that is not zero.
func bytes1(n int64) []byte { return bytes.Repeat([]byte{1}, int(n)) }

func TestCreationRefuses(t *testing.T) {
	before := settled(t)
	_, err := Allocate("x", 0)
	requireError(t, err, ErrArgument, "x", "")
	_, err = Allocate("x", -1)
	requireError(t, err, ErrArgument, "x", "")
	_, err = Allocate("x", 10, WithSpec(tensor.AllocationSpec{Alignment: 3}))
	requireError(t, err, ErrArgument, "x", "")
	for _, domain := range []Option{heap, offheap} {
		for _, bytes := range []int64{1 << 50, 1 << 62, math.MaxInt64} {
			_, err = Allocate("x", bytes, domain)
			requireError(t, err, ErrMemory, "x", "")
			require.Contains(t, err.Error(), strconv.FormatInt(bytes, 10))
		}
	}
	_, err = Allocate("x", 10, WithSpec(tensor.AllocationSpec{Domain: tensor.Device}))
	requireError(t, err, ErrUnsupported, "x", "")
	_, err = Allocate("x", 10, WithSpec(tensor.AllocationSpec{Domain: tensor.Mapped}))
	requireError(t, err, ErrUnsupported, "x", "")
	_, err = Borrow("x", nil)
	requireError(t, err, ErrArgument, "x", "")
	_, err = MapFile("/nowhere/at/all")
	requireError(t, err, ErrIO, "/nowhere/at/all", "")
	require.ErrorIs(t, err, os.ErrNotExist)
	f := file(t, 100)
	for _, r := range [][2]int64{{-1, 0}, {0, -1}, {0, 101}, {99, 2}, {100, 0}, {1 << 62, 1 << 62}} {
		_, err = Map("x", f, r[0], r[1])
		var e *Error
		require.ErrorAs(t, err, &e, r)
	}
	require.Equal(t, before, Stats())
}

// The Go heap is given up to a limit, which a scope passes on to what is made in it.
func TestHeapLimit(t *testing.T) {
	before := settled(t)
	room := before.Bytes[tensor.Heap] + 1000
	m := NewModelScope("m", WithHeapLimit(room))
	_, err := Allocate("fits", 600, In(m), heap)
	require.NoError(t, err)
	_, err = Allocate("not", 401, In(m), heap)
	requireError(t, err, ErrMemory, "not", "")
	require.Contains(t, err.Error(), "401 bytes")
	require.Contains(t, err.Error(), strconv.FormatInt(room, 10))
	onHeap := tensor.AllocationSpec{Domain: tensor.Heap}
	_, err = m.Placing(onHeap).Alloc("kv.0.k", tensor.Dense(tensor.F32), tensor.ShapeOf(1<<40))
	requireError(t, err, ErrMemory, "kv.0.k", "")
	_, err = m.Placing(onHeap).Alloc("fits too", tensor.Dense(tensor.F32), tensor.ShapeOf(100))
	require.NoError(t, err)
	_, err = NewForwardScope("slab", 64, heap, WithHeapLimit(room))
	requireError(t, err, ErrMemory, "slab", "")
	s, err := Allocate("its own limit", 64, In(m), heap, WithHeapLimit(room+64))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = Allocate("elsewhere", 5000, In(m), offheap)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.Equal(t, before, Stats())
}

// file is an open file of n counting bytes.
func file(t *testing.T, n int) *os.File {
	t.Helper()
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i)
	}
	path := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOneOwnerFreesOnce(t *testing.T) {
	before, coreBefore := settled(t), core.ReadCounters()
	for name, make := range map[string]func() (*Storage, error){
		"heap":     func() (*Storage, error) { return Allocate("x", 1000, heap) },
		"offheap":  func() (*Storage, error) { return Allocate("x", 1000, offheap) },
		"large":    func() (*Storage, error) { return Allocate("x", 3<<20, offheap) },
		"borrowed": func() (*Storage, error) { return Borrow("x", []byte("some bytes")) },
		"mapped":   func() (*Storage, error) { return Map("x", file(t, 10000), 3, 5000) },
	} {
		s, err := make()
		require.NoError(t, err, name)
		require.Equal(t, before.Storages+1, Stats().Storages)
		require.Equal(t, before.Bytes[s.Domain()]+s.Size(), Stats().Bytes[s.Domain()])
		require.False(t, s.Closed())
		require.NoError(t, s.Close(), name)
		require.True(t, s.Closed())
		requireError(t, s.Close(), ErrClosed, "x", "")
		requireError(t, s.TryClose(), ErrClosed, "x", "")
		requireError(t, s.CloseContext(context.Background()), ErrClosed, "x", "")
		require.Equal(t, before, Stats(), name)
	}
	coreAfter := core.ReadCounters()
	require.Equal(t, coreBefore.Storages, coreAfter.Storages)
	require.Equal(t, coreBefore.OffHeapBytes, coreAfter.OffHeapBytes)
}

func TestBorrowNeverFrees(t *testing.T) {
	data := []byte("borrowed bytes stay")
	s, err := Borrow("b", data[1:]) // an odd address as well as an even one
	require.NoError(t, err)
	_, err = s.WriteAt([]byte("B"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, "bBrrowed bytes stay", string(data))

	const constant = "text in the program itself"
	s, err = Borrow("c", []byte(constant), ReadOnly())
	require.NoError(t, err)
	require.False(t, s.Writable())
	_, err = s.WriteAt([]byte("x"), 0)
	requireError(t, err, ErrReadOnly, "c", "")
	v, err := s.View("t", 4, tensor.Dense(tensor.F32), tensor.ShapeOf(2))
	require.NoError(t, err)
	requireError(t, v.WriteFloat32s([]float32{1, 2}), ErrReadOnly, "c", "t")
	require.NoError(t, s.Close())
}

func TestReadAtWriteAt(t *testing.T) {
	s, err := Allocate("x", 10)
	require.NoError(t, err)
	n, err := s.WriteAt([]byte("0123456789"), 0)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	a, err := s.Alias("part", 2, 5)
	require.NoError(t, err)
	all, err := io.ReadAll(io.NewSectionReader(a, 0, 100))
	require.NoError(t, err)
	require.Equal(t, "23456", string(all))
	_, err = a.WriteAt([]byte("abcdef"), 0)
	requireError(t, err, ErrBounds, "x", "part")
	_, err = a.WriteAt([]byte("a"), 6)
	requireError(t, err, ErrBounds, "x", "part")
	_, err = a.ReadAt(nil, -1)
	requireError(t, err, ErrBounds, "x", "part")
	n, err = a.ReadAt(make([]byte, 1), 5)
	require.Equal(t, io.EOF, err)
	require.Zero(t, n)
	for _, r := range [][2]int64{{-1, 1}, {0, 0}, {0, 6}, {5, 1}, {1 << 62, 1 << 62}} {
		_, err = a.Alias("y", r[0], r[1])
		requireError(t, err, ErrBounds, "x", "y")
	}
	require.NoError(t, s.Close())
	_, err = a.ReadAt(make([]byte, 1), 0)
	requireError(t, err, ErrClosed, "x", "part")
	_, err = s.WriteAt(make([]byte, 1), 0)
	requireError(t, err, ErrClosed, "x", "")
}

func TestClosingTheRootEndsAliasesAndViews(t *testing.T) {
	s, err := Allocate("model.gguf", 4096)
	require.NoError(t, err)
	a, err := s.Alias("part", 64, 1024)
	require.NoError(t, err)
	v, err := a.View("blk.0.attn_q.weight", 0, tensor.FormatOf(tensor.Q4_0), tensor.ShapeOf(4, 96))
	require.NoError(t, err)
	narrow, err := v.Narrow(0, 1, 2)
	require.NoError(t, err)
	require.True(t, v.Live())
	_, err = narrow.Get(1, 95)
	require.NoError(t, err)

	require.NoError(t, a.Close()) // frees nothing and ends no view
	require.True(t, a.Closed())
	_, err = a.View("later", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(1))
	requireError(t, err, ErrClosed, "model.gguf", "later")
	require.True(t, v.Live())

	require.NoError(t, s.Close())
	require.False(t, v.Live())
	_, err = narrow.Get(1, 95)
	requireError(t, err, ErrClosed, "model.gguf", "blk.0.attn_q.weight")
	requireError(t, v.CopyTo(make([]float32, 4*96)), ErrClosed, "model.gguf", "blk.0.attn_q.weight")
	_, err = s.View("later", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(1))
	requireError(t, err, ErrClosed, "model.gguf", "later")
	requireError(t, a.Close(), ErrClosed, "model.gguf", "part")
	pool := newPool(t)
	_, err = Materialize(pool, "copy", v, tensor.Dense(tensor.F32), Ambient())
	requireError(t, err, ErrClosed, "model.gguf", "blk.0.attn_q.weight")
}

// A view keeps its owner reachable: collections change nothing.
func TestViewKeepsAmbientStorageReachable(t *testing.T) {
	v := func() View {
		s, err := Allocate("x", 1<<20, offheap)
		require.NoError(t, err)
		v, err := s.View("t", 128, tensor.Dense(tensor.F32), tensor.ShapeOf(4))
		require.NoError(t, err)
		require.NoError(t, v.WriteFloat32s([]float32{1, 2, 3, 4}))
		return v
	}()
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	got := make([]float32, 4)
	require.NoError(t, v.CopyTo(got))
	require.Equal(t, []float32{1, 2, 3, 4}, got)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 200 {
		if ok() {
			return
		}
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal(what)
}

// settled is Stats once nothing is left to collect.
func settled(t *testing.T) Counters {
	t.Helper()
	for last, same := Stats(), 0; ; {
		runtime.GC()
		time.Sleep(2 * time.Millisecond)
		now := Stats()
		if same++; now != last {
			last, same = now, 0
		}
		if same == 3 {
			return now
		}
	}
}

func TestAmbientIsCollected(t *testing.T) {
	settled(t)
	before := core.ReadCounters()
	for range 10 {
		_, err := Allocate("x", 1<<20, offheap)
		require.NoError(t, err)
		_, err = Map("m", file(t, 5000), 0, 0)
		require.NoError(t, err)
		_, err = Borrow("b", make([]byte, 100))
		require.NoError(t, err)
	}
	eventually(t, "not freed", func() bool { return core.ReadCounters().Storages <= before.Storages })
}

// Bytes that the collector does not see trigger it.
func TestAmbientLimit(t *testing.T) {
	const limit, each = 16 << 20, 1 << 20
	defer SetAmbientLimit(SetAmbientLimit(limit))
	runtime.GC()
	var peak int64
	for range 300 {
		_, err := Allocate("x", each, offheap)
		require.NoError(t, err)
		peak = max(peak, Stats().Ambient)
	}
	assert.Less(t, peak, int64(5*limit), "collections came too late")
}

func TestLeaksAreReportedAndNotFreed(t *testing.T) {
	leaks := make(chan Leak, 10)
	OnLeak(func(l Leak) { leaks <- l })
	defer OnLeak(nil)
	var handle core.Storage
	func() {
		m := NewModelScope("m")
		s, err := Allocate("forgotten", 1000, In(m), WithSpec(tensor.AllocationSpec{Domain: tensor.OffHeap, Scope: tensor.Model}))
		require.NoError(t, err)
		handle = s.r.handle
	}()
	var leak Leak
	eventually(t, "no report", func() bool {
		select {
		case leak = <-leaks:
			return true
		default:
			return false
		}
	})
	assert.Equal(t, "forgotten", leak.Storage)
	assert.Equal(t, tensor.Model, leak.Scope)
	assert.Equal(t, tensor.OffHeap, leak.Domain)
	assert.EqualValues(t, 1000, leak.Bytes)
	assert.Contains(t, leak.Created, "TestLeaksAreReportedAndNotFreed")
	assert.True(t, core.Live(handle.Cell, handle.Generation), "a leak is not freed")
	require.Equal(t, core.OK, core.Close(handle, nil).Code)
	records.Lock()
	for r := range records.live {
		if r.handle == handle {
			r.closed.Store(true)
			defer r.finish()
		}
	}
	records.Unlock()

	// What was closed is no leak.
	func() {
		m := NewModelScope("m")
		_, err := Allocate("kept", 1000, In(m))
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}()
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	assert.Empty(t, leaks)
}

func TestDroppedStepsAreReported(t *testing.T) {
	leaks := make(chan Leak, 10)
	OnLeak(func(l Leak) { leaks <- l })
	defer OnLeak(nil)
	for _, running := range []bool{false, true} {
		func() {
			s, err := NewStep(1)
			require.NoError(t, err)
			if running {
				require.NoError(t, s.Begin())
			}
			closed, err := NewStep(1)
			require.NoError(t, err)
			closed.Close()
		}()
		var leak Leak
		eventually(t, "no report", func() bool {
			select {
			case leak = <-leaks:
				return true
			default:
				return false
			}
		})
		require.Equal(t, "step", leak.Storage)
		require.Zero(t, leak.Threads)
		require.Contains(t, leak.Created, "TestDroppedStepsAreReported")
	}
	require.Empty(t, leaks)
}

func TestDroppedPoolsAreReported(t *testing.T) {
	leaks := make(chan Leak, 10)
	OnLeak(func(l Leak) { leaks <- l })
	defer OnLeak(nil)
	func() {
		p, err := NewPool(2)
		require.NoError(t, err)
		require.Equal(t, 2, p.Threads())
	}()
	var leak Leak
	eventually(t, "no report", func() bool {
		select {
		case leak = <-leaks:
			return true
		default:
			return false
		}
	})
	assert.Equal(t, "pool", leak.Storage)
	assert.Equal(t, 2, leak.Threads)
	assert.Contains(t, leak.Created, "TestDroppedPoolsAreReported")

	// What was closed, also twice, is no leak.
	func() {
		p, err := NewPool(2)
		require.NoError(t, err)
		p.Close()
		p.Close()
	}()
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	assert.Empty(t, leaks)
}

// pin uses a storage until the function it returns is called.
func pin(t *testing.T, s *Storage) (unpin func()) {
	t.Helper()
	p, st := core.Pin(s.r.handle)
	require.Equal(t, core.OK, st.Code)
	return func() { core.Unpin(p) }
}

// within runs do and fails by name when it hangs.
func within(t *testing.T, name string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal(name + " hangs")
	}
}

// A close ends everything and returns; bytes that are in use stay until they are not.
func TestCloseReturnsUnderUses(t *testing.T) {
	for _, domain := range []Option{heap, offheap} {
		before := settled(t)
		s, err := Allocate("x", 100, domain)
		require.NoError(t, err)
		unpin := pin(t, s)
		requireError(t, s.TryClose(), ErrBusy, "x", "")
		require.False(t, s.Closed(), "a busy TryClose changes nothing")
		within(t, "close", func() { require.NoError(t, s.Close()) })
		require.True(t, s.Closed())
		requireError(t, s.Close(), ErrClosed, "x", "")
		require.Equal(t, before.Storages+1, Stats().Storages, "not freed under a use")
		unpin()
		eventually(t, "the last use frees", func() bool { return Stats() == before })
	}
}

func TestCloseContextWaitsForUses(t *testing.T) {
	before := settled(t)
	s, err := Allocate("x", 100)
	require.NoError(t, err)
	unpin := pin(t, s)
	var closed atomic.Bool
	done := make(chan error)
	go func() {
		err := s.CloseContext(context.Background())
		closed.Store(true)
		done <- err
	}()
	for !s.Closed() {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	require.False(t, closed.Load(), "freed under a use")
	unpin()
	within(t, "the close", func() { require.NoError(t, <-done) })
	require.Equal(t, before, Stats())
}

// A TryClose that fails does not make another close fail: who says "closed" says the truth.
func TestTryCloseBesideClose(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 500
	}
	for range rounds {
		s, err := Allocate("x", 100)
		require.NoError(t, err)
		unpin := pin(t, s)
		var wg sync.WaitGroup
		var ended atomic.Int32
		var begin atomic.Bool
		for i := range 4 {
			wg.Go(func() {
				for !begin.Load() {
					runtime.Gosched()
				}
				end := s.Close
				if i > 0 {
					end = s.TryClose
				}
				switch err := end(); {
				case err == nil:
					ended.Add(1)
				case errors.Is(err, ErrClosed):
					assert.True(t, s.Closed(), "closed, says a close, and it is open")
					_, err := s.View("v", 0, tensor.Dense(tensor.I8), tensor.ShapeOf(1))
					assert.ErrorIs(t, err, ErrClosed)
				default:
					assert.ErrorIs(t, err, ErrBusy)
				}
			})
		}
		begin.Store(true)
		within(t, "a close beside others", wg.Wait)
		require.EqualValues(t, 1, ended.Load(), "one close wins, and Close is never refused as long as none did")
		unpin()
	}
}

// Within a step that uses it a storage can be closed with and without the step; so can the storage of a copy
// that failed.
func TestCloseWithinAStep(t *testing.T) {
	pool := newPool(t)
	step, err := NewStep(0)
	require.NoError(t, err)
	defer step.Close()
	before := settled(t)
	for name, end := range map[string]func(s *Storage) error{
		"close":    func(s *Storage) error { return s.Close() },
		"close in": func(s *Storage) error { return s.CloseIn(step) },
		"close context": func(s *Storage) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			err := s.CloseContext(ctx)
			assert.ErrorIs(t, err, ErrBusy)
			assert.ErrorIs(t, err, context.Canceled)
			return nil
		},
	} {
		within(t, name, func() {
			s, err := Allocate("own", 256, offheap)
			require.NoError(t, err)
			v, err := s.View("v", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(64))
			require.NoError(t, err)
			require.NoError(t, step.Begin())
			_, err = Copier{Pool: pool, Step: step, Layer: -1}.Materialize("y", v, tensor.Dense(tensor.F32), Ambient(heap))
			require.NoError(t, err)
			require.NoError(t, end(s))
			require.False(t, v.Live())
			require.NoError(t, step.End())
		})
	}
	eventually(t, "freed", func() bool { return Stats() == before })
}

func TestCloseCanceled(t *testing.T) {
	for _, domain := range []Option{heap, offheap} {
		before := settled(t)
		s, err := Allocate("x", 100, domain)
		require.NoError(t, err)
		unpin := pin(t, s)
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		err = s.CloseContext(ctx)
		requireError(t, err, ErrBusy, "x", "")
		require.ErrorIs(t, err, why)
		require.True(t, s.Closed(), "closed to new uses")
		_, err = s.ReadAt(make([]byte, 1), 0)
		requireError(t, err, ErrClosed, "x", "")
		require.NotEqual(t, before, Stats(), "not freed under a use")
		unpin()
		eventually(t, "the last use frees", func() bool { return Stats() == before })
	}
}

func TestCloseUnderLoad(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		s, err := Allocate("x", 4*64, heap)
		require.NoError(t, err)
		v, err := s.View("t", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(8, 8))
		require.NoError(t, err)
		require.NoError(t, v.WriteFloat32s(make([]float32, 64)))
		var wg sync.WaitGroup
		var reads atomic.Int64
		closers := make(chan error, 3)
		for range 3 {
			wg.Go(func() {
				buf := make([]float32, 64)
				for {
					if err := v.CopyTo(buf); err != nil {
						assert.ErrorIs(t, err, ErrClosed)
						return
					}
					reads.Add(1)
				}
			})
			wg.Go(func() {
				for reads.Load() < 20 {
					runtime.Gosched()
				}
				closers <- s.Close()
			})
		}
		wg.Wait()
		ok := 0
		for range 3 {
			if err := <-closers; err == nil {
				ok++
			} else {
				assert.ErrorIs(t, err, ErrClosed)
			}
		}
		assert.Equal(t, 1, ok, "one close wins")
	}
}

func TestModelScopeClosesInReverse(t *testing.T) {
	rec := trace.NewRecorder(100)
	m := NewModelScope("model", WithTrace(rec))
	a, err := Allocate("a", 10, In(m), WithTrace(rec))
	require.NoError(t, err)
	b, err := m.Alloc("b", tensor.Dense(tensor.F32), tensor.ShapeOf(3))
	require.NoError(t, err)
	c, err := Borrow("c", []byte("bytes"), In(m), WithTrace(rec))
	require.NoError(t, err)
	require.Equal(t, []*Storage{a, b.Storage(), c}, m.Storages())
	require.Equal(t, tensor.Model, a.Spec().Scope)
	require.Equal(t, tensor.Model, c.Spec().Scope)
	require.NoError(t, c.Close()) // one of them by hand is fine
	require.NoError(t, m.Close())
	var closed []string
	events, _ := rec.Events()
	for _, e := range events {
		if e.Kind == trace.Close {
			closed = append(closed, e.Name)
		}
	}
	require.Equal(t, []string{"c", "b", "a"}, closed)
	requireError(t, m.Close(), ErrClosed, "model", "")
	_, err = b.Get(0)
	requireError(t, err, ErrClosed, "b", "")
	before := settled(t)
	_, err = Allocate("late", 10, In(m))
	requireError(t, err, ErrClosed, "late", "")
	require.Equal(t, before, Stats())
}

func TestMapReadsTheFile(t *testing.T) {
	f := file(t, 10000)
	s, err := Map("data", f, 4097, 3000)
	require.NoError(t, err)
	require.NoError(t, f.Close(), "the caller's file may be closed")
	require.Equal(t, tensor.Mapped, s.Domain())
	require.False(t, s.Writable())
	got := make([]byte, 3000)
	_, err = s.ReadAt(got, 0)
	require.NoError(t, err)
	for i := range got {
		require.Equal(t, byte(4097+i), got[i])
	}
	v, err := s.View("t", 1, tensor.Dense(tensor.I8), tensor.ShapeOf(10)) // any address
	require.NoError(t, err)
	i, err := v.GetInt(3)
	require.NoError(t, err)
	require.Equal(t, int64(int8(4097+1+3-16*256)), i)
	require.NoError(t, s.Verify())
	require.NoError(t, s.Advise(0, 3000, WillNeed))
	requireError(t, s.Advise(0, 3001, WillNeed), ErrBounds, "data", "")
	n, err := s.Resident()
	require.NoError(t, err)
	require.EqualValues(t, 3000, n)
	require.NoError(t, s.Close())
	requireError(t, s.Verify(), ErrClosed, "data", "")
	_, err = s.Resident()
	requireError(t, err, ErrClosed, "data", "")
}

func TestTruncatedFileIsAnError(t *testing.T) {
	f := file(t, 64<<10)
	s, err := MapFile(f.Name())
	require.NoError(t, err)
	defer s.Close()
	v, err := s.View("t", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(16<<10))
	require.NoError(t, err)
	require.NoError(t, v.CopyTo(make([]float32, 16<<10)))
	require.NoError(t, f.Truncate(4096+100))
	requireError(t, v.CopyTo(make([]float32, 16<<10)), ErrFault, f.Name(), "t")
	_, err = s.ReadAt(make([]byte, 64<<10), 0)
	requireError(t, err, ErrFault, f.Name(), "")
	_, err = v.Get(10 << 10)
	requireError(t, err, ErrFault, f.Name(), "t")
	_, err = Materialize(newPool(t), "copy", v, tensor.Dense(tensor.F32), Ambient())
	requireError(t, err, ErrFault, f.Name(), "t")
	// Within the last page zeros would be read.
	_, err = s.ReadAt(make([]byte, 10), 4096+200)
	requireError(t, err, ErrChanged, f.Name(), "")
	requireError(t, s.Verify(), ErrChanged, f.Name(), "")
}

func TestProfile(t *testing.T) {
	s, err := Allocate("seen in the profile", 12345, offheap)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, WriteProfile(&b))
	p, err := pb.Parse(&b)
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	require.Equal(t, "space", p.DefaultSampleType)
	require.Equal(t, []string{"objects", "space"}, []string{p.SampleType[0].Type, p.SampleType[1].Type})
	found := 0
	for _, sample := range p.Sample {
		if sample.Label["storage"][0] != s.Name() {
			continue
		}
		found++
		require.Equal(t, []int64{1, 12345}, sample.Value)
		require.Equal(t, "offheap", sample.Label["domain"][0])
		require.Equal(t, "ambient", sample.Label["scope"][0])
		var names []string
		for _, l := range sample.Location {
			for _, line := range l.Line {
				names = append(names, line.Function.Name)
			}
		}
		require.Contains(t, strings.Join(names, " "), "skeep.TestProfile")
	}
	require.Equal(t, 1, found)
	require.NoError(t, s.Close())
	b.Reset()
	require.NoError(t, WriteProfile(&b))
	p, err = pb.Parse(&b)
	require.NoError(t, err)
	for _, sample := range p.Sample {
		require.NotEqual(t, s.Name(), sample.Label["storage"][0])
	}
	require.Error(t, WriteProfile(brokenWriter{}))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestMemoryDebugNamesTheMaker(t *testing.T) {
	defer func(was bool) { memoryDebug = was }(memoryDebug)
	memoryDebug = true
	s, err := Allocate("x", 10)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	err = s.Close()
	var e *Error
	require.ErrorAs(t, err, &e)
	first, _, _ := strings.Cut(strings.TrimSpace(e.Created), "\n")
	require.Contains(t, first, "TestMemoryDebugNamesTheMaker")
	require.Contains(t, err.Error(), "created at")
	memoryDebug = false
	require.NotContains(t, s.Close().Error(), "created at")
}

// Opening and dropping a thousand times leaves nothing behind.
func TestThousandTimes(t *testing.T) {
	f := file(t, 100<<10)
	before, coreBefore, goroutines := settled(t), core.ReadCounters(), runtime.NumGoroutine()
	for range 1000 {
		m := NewModelScope("m")
		file, err := Map("file", f, 0, 0, In(m))
		require.NoError(t, err)
		v, err := file.View("w", 32, tensor.FormatOf(tensor.Q8_0), tensor.ShapeOf(3, 96))
		require.NoError(t, err)
		_, err = m.Alloc("kv", tensor.Dense(tensor.F16), tensor.ShapeOf(64, 64))
		require.NoError(t, err)
		fwd, err := NewForwardScope("step", 64<<10)
		require.NoError(t, err)
		_, err = fwd.Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(64))
		require.NoError(t, err)
		_, err = v.Get(2, 95)
		require.NoError(t, err)
		require.NoError(t, fwd.Close())
		require.NoError(t, m.Close())
	}
	coreAfter := core.ReadCounters()
	require.Equal(t, before, Stats())
	require.Equal(t, coreBefore.Storages, coreAfter.Storages)
	require.Less(t, coreAfter.Slots-coreBefore.Slots, uint64(100), "slots are reused")
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+1)
}

// Dropping without a close leaves nothing behind either, and takes no more files than the limit.
func TestThousandDrops(t *testing.T) {
	f := file(t, 100<<10)
	before := settled(t)
	peak := int64(0)
	for range 1000 {
		s, err := Map("file", f, 0, 0)
		require.NoError(t, err)
		v, err := s.View("w", 32, tensor.FormatOf(tensor.Q8_0), tensor.ShapeOf(3, 96))
		require.NoError(t, err)
		_, err = v.Get(2, 95)
		require.NoError(t, err)
		peak = max(peak, Stats().AmbientFiles)
	}
	require.Less(t, peak, before.AmbientFiles+2*ambientFiles)
	eventually(t, "not freed", func() bool { return Stats() == before })
}

// A collector that never rests finds what nobody holds and nothing else.
func TestCollectorStress(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	f := file(t, 64<<10)
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			var kept []View
			for round := range rounds {
				value := float32(worker*rounds + round)
				s, err := Allocate("x", 4096, []Option{heap, offheap}[round%2])
				if !assert.NoError(t, err) {
					return
				}
				v, err := s.View("t", int64(round%7), tensor.Dense(tensor.F32), tensor.ShapeOf(16))
				if !assert.NoError(t, err) {
					return
				}
				fill(t, v, value)
				if kept = append(kept, v); len(kept) > 8 {
					kept = kept[1:]
				}
				for i, v := range kept {
					got, err := v.Get(15)
					assert.NoError(t, err)
					assert.Equal(t, float64(value)-float64(len(kept)-1-i), got)
				}
				m, err := Map("m", f, 0, 0)
				if !assert.NoError(t, err) {
					return
				}
				w, err := m.View("bytes", 1, tensor.Dense(tensor.I8), tensor.ShapeOf(8))
				assert.NoError(t, err)
				got, err := w.GetInt(3)
				assert.NoError(t, err)
				assert.EqualValues(t, 4, got)
			}
		})
	}
	wg.Wait()
}

func TestLock(t *testing.T) {
	s, err := Map("data", file(t, 10000), 1, 5000)
	require.NoError(t, err)
	if err := s.Lock(); err != nil { // the limit of the machine decides
		requireError(t, err, ErrMemory, "data", "")
		require.Contains(t, err.Error(), "ulimit")
	}
	require.NoError(t, s.Close())
	requireError(t, s.Lock(), ErrClosed, "data", "")
}

// Case E05. Large storages ask for huge pages: they begin at one. Where the system has none, small pages serve, and a probe says so.
func TestHugePagesAreAskedFor(t *testing.T) {
	const size, huge = 64 << 20, 2 << 20
	used := func() int64 {
		before, err := trace.Probe()
		require.NoError(t, err)
		s, err := Allocate("large", size)
		require.NoError(t, err)
		defer s.Close()
		require.Zero(t, s.address%huge)
		for at := int64(0); at < size; at += 4096 {
			_, err = s.WriteAt([]byte{1}, at)
			require.NoError(t, err)
		}
		after, err := trace.Probe()
		require.NoError(t, err)
		require.Greater(t, after.Anonymous-before.Anonymous, int64(size-huge))
		return after.Huge - before.Huge
	}
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		t.Skip("huge pages cannot be disabled here: ", err)
	}
	without := used()
	require.NoError(t, unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0))
	require.Less(t, without, int64(huge))
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") {
		t.Skip("this machine has no huge pages")
	}
	require.Greater(t, used(), int64(size/2))
}
