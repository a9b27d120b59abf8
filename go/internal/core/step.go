package core

/*
#include "skeep.h"

typedef struct { skeep_status status; skeep_pool *pool; } pooled;
static pooled pool_create(uint32_t threads, uint64_t scratch) {
  pooled p = {0};
  p.status = skeep_pool_create(threads, scratch, &p.pool);
  return p;
}
typedef struct { skeep_status status; skeep_step *step; } stepped;
static stepped step_create(uint32_t frame, uint32_t roots) {
  stepped s = {0};
  s.status = skeep_step_create(frame, roots, &s.step);
  return s;
}
typedef struct { skeep_status status; uint64_t op; } first;
static first step_status(const skeep_step *step) {
  first f = {0};
  f.status = skeep_step_status(step, &f.op);
  return f;
}
*/
import "C"

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Pool is the persistent worker threads of the core and their scratch. It is safe for concurrent use: operations of
// several goroutines may share it (one region runs on the workers, one more on its caller alone, others wait), and Close
// may come at any time.
type Pool struct {
	threads int
	closing atomic.Bool  // Threads need not wait for who closes
	running sync.RWMutex // held for reading by operations, for writing by Close
	c       *C.skeep_pool
	cleanup runtime.Cleanup
}

// MaxThreads is the most that a pool may have.
const MaxThreads = 1024

// What an operation answers that has no pool to run on. No storage is to blame, so the details of these codes are free.
var (
	NoPool     = Status{Code: ErrArgument, Operand: -1, Detail: math.MaxUint64}
	PoolClosed = Status{Code: ErrClosed, Operand: -1, Detail: math.MaxUint64}
	StepClosed = Status{Code: ErrArgument, Operand: -1, Detail: math.MaxUint64 - 1}
)

// NewPool starts a pool. threads counts the caller, 0 = the processors that this thread may run on; scratch
// is bytes per thread, 0 = 1 MiB. Close ends it.
func NewPool(threads int, scratch uint64) (*Pool, Status) {
	if threads < 0 || threads > MaxThreads {
		return nil, Status{Code: ErrArgument, Operand: -1}
	}
	p := C.pool_create(C.uint32_t(threads), C.uint64_t(scratch))
	if st := statusOf(p.status); st.Code != OK {
		return nil, st
	}
	return &Pool{c: p.pool, threads: int(C.skeep_pool_threads(p.pool))}, statusOf(p.status)
}

// Threads is how many threads work on a region, the caller included; 0 when the pool is closed. It waits for nobody.
func (p *Pool) Threads() int {
	if p == nil || p.closing.Load() {
		return 0
	}
	return p.threads
}

// OnDrop sets what runs, on a goroutine of its own, when the pool has become unreachable before Close. It must not
// refer to the pool, and is set before others use that. The threads stay.
func (p *Pool) OnDrop(f func()) {
	p.cleanup.Stop()
	p.cleanup = runtime.AddCleanup(p, func(f func()) { f() }, f)
}

// Close waits for the operations that have begun and ends the workers; operations from then on are refused as those of a
// closed pool. Any number of goroutines may call it, also again: each returns once the workers have ended.
func (p *Pool) Close() {
	if p == nil {
		return
	}
	p.closing.Store(true)
	p.running.Lock()
	defer p.running.Unlock()
	p.cleanup.Stop()
	C.skeep_pool_destroy(p.c)
	p.c = nil
}

// PoolStatus is OK, NoPool, or PoolClosed; the last two are final.
func PoolStatus(p *Pool) Status {
	switch {
	case p == nil:
		return NoPool
	case p.closing.Load() || p.threads == 0:
		return PoolClosed
	}
	return Status{Code: OK, Operand: -1}
}

// Hold is C's pool for an operation of step s (nil: of none), when the status is OK. It stays open until Release.
func (p *Pool) Hold(s *Step) (unsafe.Pointer, Status) {
	if p == nil {
		return nil, NoPool
	}
	if s.closed() {
		return nil, StepClosed
	}
	p.running.RLock()
	if st := PoolStatus(p); st.Code != OK {
		p.running.RUnlock()
		return nil, st
	}
	return unsafe.Pointer(p.c), Status{Code: OK, Operand: -1}
}

// Release ends a successful Hold.
func (p *Pool) Release() { p.running.RUnlock() }

// maxOperands is how many descriptors the frame of a step holds: C's SKEEP_MAX_OPERANDS.
const maxOperands = 16

// frame is where the descriptors of one call stand while C reads them.
type frame [maxOperands]View

// Step groups operations: it pins each storage once, keeps the first error, and holds the frame, in C
// memory. It belongs to one goroutine at a time. A nil *Step stands for a bare call: operations then pin
// for themselves.
type Step struct {
	c       *C.skeep_step
	frame   *frame
	cleanup runtime.Cleanup
}

// MaxRoots is the most storages that a step can pin.
const MaxRoots = 32768

// NewStep makes a step that can pin so many storages (0 = 64). Destroy frees it.
func NewStep(roots int) (*Step, Status) {
	if roots < 0 || roots > MaxRoots {
		return nil, Status{Code: ErrArgument, Operand: -1, Detail: 1}
	}
	s := C.step_create(maxOperands, C.uint32_t(roots))
	if st := statusOf(s.status); st.Code != OK {
		return nil, st
	}
	return &Step{c: s.step, frame: (*frame)(unsafe.Pointer(C.skeep_step_frame(s.step)))}, statusOf(s.status)
}

// OnDrop is Pool.OnDrop for a step: its memory and pins stay.
func (s *Step) OnDrop(f func()) {
	s.cleanup.Stop()
	s.cleanup = runtime.AddCleanup(s, func(f func()) { f() }, f)
}

// Begin starts a step. ErrArgument while it runs already.
func (s *Step) Begin() Status { return statusOf(C.skeep_step_begin(s.ptr())) }

// End gives the pins back, verifies mapped storages and returns the first error of the step.
func (s *Step) End() Status { return statusOf(C.skeep_step_end(s.ptr())) }

// Status is the first error so far, and which operation of the step caused it, counted from 0.
func (s *Step) Status() (st Status, op uint64) {
	f := C.step_status(s.ptr())
	return statusOf(f.status), uint64(f.op)
}

// Destroy ends the step when it runs, and frees it. Further uses are ErrArgument. A nil step and the zero one are closed.
func (s *Step) Destroy() {
	if s == nil {
		return
	}
	s.cleanup.Stop()
	C.skeep_step_destroy(s.ptr())
	s.c, s.frame = nil, nil
}

// closed reports whether the step was destroyed or never made. A nil one stands for no step and is not.
func (s *Step) closed() bool { return s != nil && s.c == nil }

func (s *Step) ptr() *C.skeep_step {
	if s == nil {
		return nil
	}
	return s.c
}

// frames serves bare calls: Go memory without pointers, which C may read during a call.
var frames = sync.Pool{New: func() any { return new(frame) }}

// take is the step's frame, or one for a bare call; give takes it back.
func (s *Step) take() *frame {
	if s != nil && s.frame != nil {
		return s.frame
	}
	return frames.Get().(*frame)
}

func (s *Step) give(f *frame) {
	if s == nil || s.frame != f {
		frames.Put(f)
	}
}

// put copies the descriptor of operand i into the frame and returns its address, nil for an absent one.
func (f *frame) put(i int, v *View) *C.skeep_view {
	if v == nil {
		return nil
	}
	f[i] = *v
	return (*C.skeep_view)(unsafe.Pointer(&f[i]))
}
