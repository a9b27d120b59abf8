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
	"runtime"
	"sync"
	"unsafe"
)

// Pool is the persistent worker threads of the core and their scratch. Operations of several goroutines
// may use one pool: one region runs on the workers, one more on its caller alone, others wait.
type Pool struct {
	c       *C.skeep_pool
	cleanup runtime.Cleanup
}

// NewPool starts a pool. threads counts the caller, 0 = the processors that this thread may run on; scratch
// is bytes per thread, 0 = 1 MiB. Close ends it.
func NewPool(threads int, scratch uint64) (*Pool, Status) {
	if threads < 0 || threads > 1<<20 {
		return nil, Status{Code: ErrArgument, Operand: -1}
	}
	p := C.pool_create(C.uint32_t(threads), C.uint64_t(scratch))
	if st := statusOf(p.status); st.Code != OK {
		return nil, st
	}
	return &Pool{c: p.pool}, statusOf(p.status)
}

// Threads is how many threads work on a region, the caller included; 0 when the pool is closed.
func (p *Pool) Threads() int { return int(C.skeep_pool_threads(p.ptr())) }

// OnDrop sets what runs, on a goroutine of its own, when the pool has become unreachable before Close. It must not
// refer to the pool. The threads stay: an operation that has just fetched the address of an unreachable pool may
// still be about to begin.
func (p *Pool) OnDrop(f func()) {
	p.cleanup.Stop()
	p.cleanup = runtime.AddCleanup(p, func(f func()) { f() }, f)
}

// Close waits for the operations that have begun and ends the workers. The pool must not be used by others any more;
// operations on a closed pool are ErrArgument. Closing it again does nothing.
func (p *Pool) Close() {
	p.cleanup.Stop()
	C.skeep_pool_destroy(p.ptr())
	p.c = nil
}

func (p *Pool) ptr() *C.skeep_pool {
	if p == nil {
		return nil
	}
	return p.c
}

// maxOperands is how many descriptors the frame of a step holds: C's SKEEP_MAX_OPERANDS.
const maxOperands = 16

// frame is where the descriptors of one call stand while C reads them.
type frame [maxOperands]View

// Step groups operations: it pins each storage once, keeps the first error, and holds the frame, in C
// memory. It belongs to one goroutine at a time. A nil *Step stands for a bare call: operations then pin
// for themselves.
type Step struct {
	c     *C.skeep_step
	frame *frame
}

// NewStep makes a step that can pin so many storages (0 = 64). Destroy frees it.
func NewStep(roots int) (*Step, Status) {
	if roots < 0 || roots > 1<<20 {
		return nil, Status{Code: ErrArgument, Operand: -1, Detail: 1}
	}
	s := C.step_create(maxOperands, C.uint32_t(roots))
	if st := statusOf(s.status); st.Code != OK {
		return nil, st
	}
	return &Step{s.step, (*frame)(unsafe.Pointer(C.skeep_step_frame(s.step)))}, statusOf(s.status)
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

// Destroy ends the step when it runs, and frees it. Further uses are ErrArgument.
func (s *Step) Destroy() {
	C.skeep_step_destroy(s.ptr())
	s.c, s.frame = nil, nil
}

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
