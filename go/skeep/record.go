package skeep

import (
	"log/slog"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// record is what stays known of an owner until its bytes are gone. It never refers to its Storage, so
// that the collector can find the Storage unreachable, and it keeps reachable what the C core was given.
type record struct {
	handle   core.Storage
	id       uint64
	name     string
	spec     tensor.AllocationSpec
	bytes    int64
	readonly bool
	foreign  bool // the caller's bytes, which may be a mapping of its own
	trace    *trace.Recorder
	pinner   *runtime.Pinner // of Go memory; behind a pointer since a collected Pinner panics
	memory   []byte          // the Go memory
	writes   atomic.Uint64   // through views and storages
	closed   atomic.Bool     // a look ahead that saves asking the core
	gone     chan struct{}   // closed once nobody can reach the bytes of a closed owner any more
	depth    int
	pcs      [24]uintptr // stack that made it
}

func (r *record) stack() []uintptr { return r.pcs[:r.depth] }

// records is every owner that has bytes.
var records = struct {
	sync.Mutex
	live  map[*record]struct{}
	stats Counters
}{live: map[*record]struct{}{}}

// profile counts storages for runtime/pprof; WriteProfile adds their bytes.
var profile = pprof.NewProfile("skeep_storage")

// Counters holds totals of the open storages of the process.
type Counters struct {
	Storages int64
	Bytes    [tensor.Device + 1]int64 // by domain
	// Ambient storages, which garbage collection frees: bytes outside of the Go heap, and bytes of mapped files.
	Ambient, AmbientFiles int64
}

// Stats returns the totals of all open storages. Aliases have no bytes of their own. A storage that was closed while it
// was in use counts until its bytes are freed.
func Stats() Counters {
	records.Lock()
	defer records.Unlock()
	return records.stats
}

// count adds or removes r. Records locked.
func (r *record) count(sign int64) {
	s := &records.stats
	s.Storages += sign
	s.Bytes[r.spec.Domain] += sign * r.bytes
	switch {
	case r.collected():
		s.Ambient += sign * r.bytes
	case r.spec.Scope == tensor.Ambient && r.spec.Domain == tensor.Mapped:
		s.AmbientFiles += sign
	}
}

// collected reports whether garbage collection frees bytes that it does not see.
func (r *record) collected() bool {
	return r.spec.Scope == tensor.Ambient && r.spec.Domain == tensor.OffHeap
}

func (r *record) register() {
	r.depth = runtime.Callers(3, r.pcs[:])
	r.gone = make(chan struct{})
	records.Lock()
	records.live[r] = struct{}{}
	r.count(1)
	records.Unlock()
	profile.Add(r, 2)
}

// finish forgets an owner whose bytes nobody can reach any more.
func (r *record) finish() {
	records.Lock()
	delete(records.live, r)
	r.count(-1)
	records.Unlock()
	profile.Remove(r)
	if r.pinner != nil {
		r.pinner.Unpin()
		r.memory = nil
	}
	r.trace.Emit(trace.Event{Kind: trace.Close, Name: r.name, Layer: -1, Bytes: r.bytes})
	close(r.gone)
}

// recordOf is the owner that a status names by its number, nil when it names none or that is gone.
func recordOf(st core.Status) *record {
	switch st.Code {
	case core.ErrClosed, core.ErrChanged, core.ErrReadOnly:
	default:
		return nil
	}
	records.Lock()
	defer records.Unlock()
	for r := range records.live {
		if r.id == st.Detail {
			return r
		}
	}
	return nil
}

// end forgets a closed owner once its bytes are gone, and closes r.gone then. There is no wake-up from C: pins last for
// microseconds, a step at most.
func (r *record) end() {
	if r.freed() {
		r.finish()
		return
	}
	go func() {
		for wait := 20 * time.Microsecond; !r.freed(); wait = min(2*wait, 2*time.Millisecond) {
			time.Sleep(wait)
		}
		r.finish()
	}()
}

// freed reports whether nobody pins the bytes of a closed owner any more, and they have been given back.
func (r *record) freed() bool {
	_, st := core.Left(r.handle)
	return st.Code != core.OK
}

// Leak describes a Pool, a Step, or a storage of a ModelScope or ForwardScope, that became unreachable without having
// been closed. Domain and Scope have no meaning for a pool or step.
type Leak struct {
	Storage string // its name; "pool" for a Pool, "step" for a Step
	Domain  tensor.Domain
	Scope   tensor.ScopeKind
	Bytes   int64
	Threads int    // of a Pool, its caller counted; 0 for others
	Created string // the stack that made it
}

// report hands a leak to the hook, or to the log.
func (l Leak) report() {
	if hook := leakHook.Load(); hook != nil {
		(*hook)(l)
		return
	}
	if l.Threads > 0 {
		slog.Warn("skeep: pool was never closed", "threads", l.Threads, "created", l.Created)
		return
	}
	if l.Bytes == 0 {
		slog.Warn("skeep: step was never closed", "created", l.Created)
		return
	}
	slog.Warn("skeep: storage was never closed", "storage", l.Storage, "bytes", l.Bytes, "domain", l.Domain, "created", l.Created)
}

var leakHook atomic.Pointer[func(Leak)]

// OnLeak sets a function that is called when a Pool, a Step, or a storage of a ModelScope or ForwardScope, becomes
// unreachable without having been closed: its threads, pins or bytes are lost. The function runs on its own goroutine. nil restores the
// default, a warning through slog.
func OnLeak(hook func(Leak)) {
	if hook == nil {
		leakHook.Store(nil)
		return
	}
	leakHook.Store(&hook)
}

// abandoned runs when an owner has become unreachable.
func abandoned(r *record) {
	if r.closed.Load() {
		return
	}
	if r.spec.Scope != tensor.Ambient {
		Leak{Storage: r.name, Domain: r.spec.Domain, Scope: r.spec.Scope, Bytes: r.bytes, Created: stackText(r.stack())}.report()
		return
	}
	if st := core.Close(r.handle, nil); st.Code == core.OK {
		r.closed.Store(true)
		r.end()
	}
}

// DefaultAmbientLimit is how many bytes outside of the Go heap Ambient storages may hold before a
// garbage collection is triggered.
const DefaultAmbientLimit = 256 << 20

// ambientFiles is the same for mapped files, each of which holds a file descriptor.
const ambientFiles = 128

// ambient paces collections, since the collector does not see what it would free: the next one is due
// when the bytes (or files) have doubled since the last, or at the limit.
var ambient = struct {
	sync.Mutex
	limit, due, filesDue int64
}{limit: DefaultAmbientLimit, due: DefaultAmbientLimit, filesDue: ambientFiles}

// SetAmbientLimit sets how many bytes outside of the Go heap Ambient storages may hold before a new one triggers a
// garbage collection. It returns the previous limit.
func SetAmbientLimit(bytes int64) (previous int64) {
	ambient.Lock()
	defer ambient.Unlock()
	previous, ambient.limit, ambient.due = ambient.limit, bytes, bytes
	return previous
}

// makeRoom is called before Ambient off-heap bytes or mapped files are added.
func makeRoom(bytes, files int64) {
	ambient.Lock()
	defer ambient.Unlock()
	if s := Stats(); s.Ambient+bytes <= ambient.due && s.AmbientFiles+files <= ambient.filesDue {
		return
	}
	runtime.GC()
	// Cleanups run on goroutines of their own: wait until they begin, and then until they pause. What is left
	// decides when the next collection is due, so a count in their middle would double the limit.
	left := Stats()
	for round, idle, patience := 0, 0, 20; round < 200 && idle < patience; round++ {
		time.Sleep(500 * time.Microsecond)
		now := Stats()
		if idle++; now.Ambient < left.Ambient || now.AmbientFiles < left.AmbientFiles {
			idle, patience = 0, 4
		}
		left = now
	}
	ambient.due = max(ambient.limit, 2*(left.Ambient+bytes))
	ambient.filesDue = max(ambientFiles, 2*(left.AmbientFiles+files))
}
