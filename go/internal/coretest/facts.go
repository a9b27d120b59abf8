package coretest

/*
#include "internal.h"
#include <stddef.h>

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

// The row that skeep_kernel_find takes, -1 for none.
static ptrdiff_t hook_find(uint32_t op, uint32_t encoding, uint32_t activation, skeep_order order) {
  const struct skeep_kernel *k = skeep_kernel_find(op, encoding, activation, order);
  return k ? k - skeep_kernel_row(0) : -1;
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

import (
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// FindKernel is the row that skeep_kernel_find takes, -1 for none.
func FindKernel(op tensor.Op, encoding, activation tensor.Encoding, o tensor.Order) int {
	order := C.skeep_order{family: C.uint8_t(o.Family), panel: C.uint8_t(o.Panel), interleave: C.uint8_t(o.Interleave), version: C.uint8_t(o.Version)}
	return int(C.hook_find(C.uint32_t(op), C.uint32_t(encoding), C.uint32_t(activation), order))
}

// CellOffset is where skeep_cell finds an index, in bytes from the view's data. The view must be right.
func CellOffset(v *core.View, i [4]int64) int {
	return int(C.hook_cell((*C.skeep_view)(unsafe.Pointer(v)), C.int64_t(i[0]), C.int64_t(i[1]), C.int64_t(i[2]), C.int64_t(i[3])))
}

// BorrowReleased borrows bytes at an address with a release hook that adds 1 to the uint32 at count. Both
// addresses are off-heap memory.
func BorrowReleased(address uintptr, bytes int, count uintptr) (core.Storage, core.Status) {
	m := C.hook_borrow(C.uintptr_t(address), C.uint64_t(bytes), C.uintptr_t(count))
	return core.Storage{Cell: uintptr(m.storage.cell), Generation: uint64(m.storage.generation)}, statusOf(m.status)
}

// ViewFields is size and offset of skeep_view, its fields, skeep_layout, its fields, skeep_order, its fields,
// as C sees them.
func ViewFields() [][2]uintptr {
	fields := make([][2]uintptr, C.view_field_count())
	for i := range fields {
		fields[i] = [2]uintptr{uintptr(C.view_field(C.size_t(i), 0)), uintptr(C.view_field(C.size_t(i), 1))}
	}
	return fields
}
