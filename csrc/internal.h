/* Included first by every translation unit of the core: platform checks, and what all units share. Nothing here is public.
 *
 *   bodies.h          the types of kernel bodies         op.h              one operation
 *   kernel.h          the table of kernels               pool.h            threads and faults
 *   half.h            16-bit floats                      floating_point.h  rounding, subnormal numbers
 *   machine.h         what depends on the processor alone */
#ifndef SKEEP_INTERNAL_H
#define SKEEP_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "skeep.h"

#include <errno.h>
#include <string.h>

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "skeep supports linux on amd64 and arm64"
#endif

#define SKEEP_ANY 0xffffu
#define SKEEP_MAX_OPERANDS 16

#define SKEEP_ENCODING_IDS 512 /* all ids of encodings.def are below */

/* As a function's first line: errno is afterwards what it was before. */
static inline void skeep_errno_restore(const int *before) { errno = *before; }
#define SKEEP_KEEP_ERRNO const int errno_before __attribute__((unused, cleanup(skeep_errno_restore))) = errno

static inline skeep_status skeep_ok(void) { return (skeep_status){SKEEP_OK, -1, 0}; }
static inline skeep_status skeep_fail(int32_t code, int32_t operand, uint64_t detail) {
  return (skeep_status){code, operand, detail};
}

#include "bodies.h"
#include "floating_point.h"
#include "half.h"
#include "kernel.h"
#include "machine.h"
#include "op.h"
#include "pool.h"

/* Views. */
static inline char *skeep_data(const skeep_view *v) { return (char *)(uintptr_t)v->data; }
/* Address of the cell (block, or element when dense) that holds logical index; in bounds by precondition. In feed order
 * the bytes of a block are all over its column: op_lines.h reads and writes them. */
const char *skeep_cell(const skeep_view *v, const int64_t *index);
/* skeep_get of every element, in logical order, rounded to float: one check, pin and verification for all of them. */
skeep_status skeep_get_all(const skeep_view *view, float *values);

#endif
