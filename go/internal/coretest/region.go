package core

/*
#include "internal.h"
#include <pthread.h>
#include <stddef.h>

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
static ptrdiff_t hook_cell(const skeep_view *v, int64_t a, int64_t b, int64_t c, int64_t d) {
  return skeep_cell(v, (const int64_t[]){a, b, c, d}) - skeep_data(v);
}

static void hook_released(void *arg) { __atomic_add_fetch((uint32_t *)arg, 1, __ATOMIC_SEQ_CST); }
typedef struct { skeep_status status; skeep_storage storage; } hook_made;
// count lives in memory that C may keep: an off-heap storage of the test.
static hook_made hook_borrow(uintptr_t address, uint64_t bytes, uintptr_t count) {
  hook_made m = {0};
  m.status = skeep_storage_borrow((void *)address, bytes, SKEEP_DOMAIN_OFFHEAP, 0, hook_released, (void *)count, &m.storage);
  return m;
}

#define FIELD(type, field) {sizeof(((type *)0)->field), offsetof(type, field)}
static const size_t view_fields[][2] = {
  {sizeof(skeep_view), 0},
  FIELD(skeep_view, data), FIELD(skeep_view, bytes), FIELD(skeep_view, cell), FIELD(skeep_view, generation),
  FIELD(skeep_view, storage), FIELD(skeep_view, value), FIELD(skeep_view, dtype), FIELD(skeep_view, encoding),
  FIELD(skeep_view, layout), FIELD(skeep_view, reserved),
  {sizeof(skeep_layout), 0},
  FIELD(skeep_layout, shape), FIELD(skeep_layout, stride), FIELD(skeep_layout, offset), FIELD(skeep_layout, block),
  FIELD(skeep_layout, rank), FIELD(skeep_layout, block_axis), FIELD(skeep_layout, row_axis),
  FIELD(skeep_layout, reserved), FIELD(skeep_layout, order), FIELD(skeep_layout, reserved2),
  {sizeof(skeep_order), 0},
  FIELD(skeep_order, family), FIELD(skeep_order, panel), FIELD(skeep_order, interleave), FIELD(skeep_order, version),
};
static size_t view_field(size_t i, int which) { return view_fields[i][which]; }
static size_t view_field_count(void) { return sizeof view_fields / sizeof view_fields[0]; }
*/
import "C"

import "unsafe"

// region runs a region of len(counts) tasks, each of which adds 1 to its count after some work. Task 0 first
// waits for *until when that is not nil; threads other than the caller read the byte at touch when that is
// not 0. shared reports whether two tasks at work had the same scratch. For tests of the pool.
func region(p *Pool, counts []uint32, work int, until *uint32, touch uintptr) (shared bool, st Status) {
	pool, st := p.use()
	if st.Code != OK {
		return false, st
	}
	defer p.running.RUnlock()
	var s C.uint32_t
	r := C.hook_region(pool, C.uint32_t(len(counts)), C.uint32_t(work),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(counts))), (*C.uint32_t)(unsafe.Pointer(until)),
		C.uintptr_t(touch), &s)
	return s != 0, statusOf(r)
}

// cellOffset is where skeep_cell finds an index, in bytes from the view's data. The view must be right.
func cellOffset(v *View, i [4]int64) int {
	f := (*Step)(nil).take()
	defer (*Step)(nil).give(f)
	return int(C.hook_cell(f.put(0, v), C.int64_t(i[0]), C.int64_t(i[1]), C.int64_t(i[2]), C.int64_t(i[3])))
}

// borrowReleased borrows bytes at an address with a release hook that adds 1 to the uint32 at count. Both
// addresses are off-heap memory.
func borrowReleased(address uintptr, bytes int, count uintptr) (Storage, Status) {
	m := C.hook_borrow(C.uintptr_t(address), C.uint64_t(bytes), C.uintptr_t(count))
	return Storage{uintptr(m.storage.cell), uint64(m.storage.generation)}, statusOf(m.status)
}

// viewFields is size and offset of skeep_view, its fields, skeep_layout, its fields, skeep_order, its fields,
// as C sees them.
func viewFields() [][2]uintptr {
	fields := make([][2]uintptr, C.view_field_count())
	for i := range fields {
		fields[i] = [2]uintptr{uintptr(C.view_field(C.size_t(i), 0)), uintptr(C.view_field(C.size_t(i), 1))}
	}
	return fields
}
