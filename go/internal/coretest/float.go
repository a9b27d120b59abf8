package coretest

/*
#include "internal.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

// How this thread's floats are computed: rounding, traps, what becomes of subnormals; without the flags that every
// operation may raise.
static uint64_t float_control(void) {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu;
#elif defined(__aarch64__)
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
#else
  return 0;
#endif
}
struct hook_float {
  uint64_t *control;
  uint32_t arrived, tasks;
};
// No task ends before all have begun: each runs on a thread of its own.
static void hook_float_task(void *arg, uint32_t index, void *scratch) {
  struct hook_float *h = arg;
  (void)scratch;
  h->control[index] = float_control();
  __atomic_add_fetch(&h->arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&h->arrived, __ATOMIC_ACQUIRE) < h->tasks) {
  }
}
static skeep_status hook_float_control(skeep_pool *pool, uint64_t *control, uint32_t threads) {
  return skeep_pool_run(pool, hook_float_task, &(struct hook_float){control, 0, threads}, threads);
}
*/
import "C"

import (
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
)

// FloatControl is MXCSR (FPCR on arm64), without its flags, of the caller in [0] and of every thread of the pool behind
// it, in no order. Lock the goroutine to its thread to compare two calls. Nobody else may use the pool meanwhile.
func FloatControl(p *core.Pool) ([]uint64, core.Status) {
	pool, st := p.Hold(nil)
	if st.Code != core.OK {
		return nil, st
	}
	defer p.Release()
	threads := p.Threads()
	control := make([]uint64, 1+threads)
	control[0] = uint64(C.float_control())
	st = statusOf(C.hook_float_control((*C.skeep_pool)(pool), (*C.uint64_t)(unsafe.Pointer(&control[1])), C.uint32_t(threads)))
	return control, st
}
