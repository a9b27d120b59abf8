/* Checks of operands shared by operations, to be used after skeep_op_begin. `operand` is the position to report. */
#ifndef SKEEP_OPERAND_H
#define SKEEP_OPERAND_H

#include "internal.h"

/* In this dense encoding, of this rank (0 = any from 1 on). */
static inline skeep_status operand_dense(const skeep_view *v, int32_t operand, uint32_t encoding, uint32_t rank) {
  if (v->encoding != encoding) return skeep_fail(SKEEP_ERR_FORMAT, operand, v->encoding);
  const uint32_t r = v->layout.rank;
  if (rank ? r != rank : !r) return skeep_fail(SKEEP_ERR_SHAPE, operand, r < rank ? r : rank);
  return skeep_ok();
}

/* Extent `axis` of v is n. */
static inline skeep_status operand_extent(const skeep_view *v, int32_t operand, uint32_t axis, int64_t n) {
  return v->layout.shape[axis] == n ? skeep_ok() : skeep_fail(SKEEP_ERR_SHAPE, operand, axis);
}

/* v has the shape of like. */
static inline skeep_status operand_shape(const skeep_view *v, int32_t operand, const skeep_view *like) {
  const uint32_t r = v->layout.rank, want = like->layout.rank;
  if (r != want) return skeep_fail(SKEEP_ERR_SHAPE, operand, r < want ? r : want);
  for (uint32_t a = 0; a < r; a++)
    if (v->layout.shape[a] != like->layout.shape[a]) return skeep_fail(SKEEP_ERR_SHAPE, operand, a);
  return skeep_ok();
}

/* Address of element 0 and bytes from one index of an axis to the next, of a view of `size`-byte elements. */
static inline char *operand_start(const skeep_view *v, int64_t size) { return skeep_data(v) + v->layout.offset * size; }
static inline int64_t operand_step(const skeep_view *v, uint32_t axis, int64_t size) {
  return v->layout.stride[axis] * size;
}

/* Element t of a rank-1 I32 view. Another thread may write it at any time. An index must be used with the value that
 * was checked, so the compiler must not read it a second time: hence volatile. */
typedef int32_t operand_any_i32 __attribute__((aligned(1), may_alias));
static inline int64_t operand_i32(const skeep_view *v, int64_t t) {
  return *(const volatile operand_any_i32 *)(const void *)(operand_start(v, 4) + t * operand_step(v, 0, 4));
}

/* Keeps in *smallest (UINT64_MAX at first) the smallest of the places that tasks report. */
static inline void operand_note(uint64_t *smallest, uint64_t place) {
  uint64_t seen = __atomic_load_n(smallest, __ATOMIC_RELAXED);
  while (place < seen && !__atomic_compare_exchange_n(smallest, &seen, place, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

/* Leaves the function with the first status that is not OK. */
#define SKEEP_TRY(call)                          \
  do {                                           \
    const skeep_status status_ = (call);         \
    if (status_.code != SKEEP_OK) return status_; \
  } while (0)

#endif
