package coretest

/*
#include "internal.h"
#include <pthread.h>

// A region for tests of the pool. Each task counts its index, fills its scratch with its own number and looks
// whether it is still there after some work: a scratch that two tasks share at one time shows.
struct hook_region {
  uint32_t *counts;
  uint32_t *until;      // task 0 waits until this is not 0; or NULL
  const char *touch;    // what threads other than the caller read; or NULL
  pthread_t caller;
  uint32_t work, shared, others;
};
static void hook_region_task(void *arg, uint32_t index, void *scratch) {
  struct hook_region *r = arg;
  uint32_t *mine = scratch;
  for (uint32_t i = 0; i < 64; i++) mine[i] = index + 1;
  if (index == 0 && r->until)
    while (!__atomic_load_n(r->until, __ATOMIC_ACQUIRE)) {
    }
  if (r->touch) {
    // The caller leaves the reading to a worker, and waits for one to come.
    if (pthread_equal(pthread_self(), r->caller)) {
      while (!__atomic_load_n(&r->others, __ATOMIC_ACQUIRE)) {
      }
    } else {
      __atomic_store_n(&r->others, 1, __ATOMIC_RELEASE);
      mine[0] += *(const volatile char *)r->touch * 0;
    }
  }
  for (volatile uint32_t i = 0; i < r->work; i++) {
  }
  for (uint32_t i = 0; i < 64; i++)
    if (mine[i] != index + 1) __atomic_store_n(&r->shared, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&r->counts[index], 1, __ATOMIC_RELAXED);
}
static skeep_status hook_region(skeep_pool *pool, uint32_t tasks, uint32_t work, uint32_t *counts, uint32_t *until,
                                uintptr_t touch, uint32_t *shared) {
  struct hook_region r = {counts, until, (const char *)touch, pthread_self(), work, 0, 0};
  skeep_status st = skeep_pool_run(pool, hook_region_task, &r, tasks);
  *shared = r.shared;
  return st;
}
*/
import "C"

import (
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
)

// Region runs a region of len(counts) tasks, each of which adds 1 to its count after some work. Task 0 first
// waits for *until when that is not nil; threads other than the caller read the byte at touch when that is
// not 0. shared reports whether two tasks at work had the same scratch.
func Region(p *core.Pool, counts []uint32, work int, until *uint32, touch uintptr) (shared bool, st core.Status) {
	pool, st := p.Hold(nil)
	if st.Code != core.OK {
		return false, st
	}
	defer p.Release()
	var s C.uint32_t
	r := C.hook_region((*C.skeep_pool)(pool), C.uint32_t(len(counts)), C.uint32_t(work),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(counts))), (*C.uint32_t)(unsafe.Pointer(until)),
		C.uintptr_t(touch), &s)
	return s != 0, statusOf(r)
}

func statusOf(s C.skeep_status) core.Status {
	return core.Status{Code: int32(s.code), Operand: int32(s.operand), Detail: uint64(s.detail)}
}
