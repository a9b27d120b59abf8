/* Included first by every translation unit of the core: platform checks, block structs, the types of
 * kernel bodies, and what the units share. Nothing here is public. */
#ifndef SKEEP_INTERNAL_H
#define SKEEP_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "skeep.h"

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "skeep supports linux on amd64 and arm64"
#endif

#define SKEEP_ANY 0xffffu

/* ---- kernel bodies: raw pointers, preconditions instead of checks ------------------------------
 * Pointers may have any alignment; extents are > 0; inputs are live, in bounds and do not overlap
 * outputs (unless the op is "in place"). Bodies allocate nothing and touch exactly the bytes named. */

/* out[0 .. blocks*block_elements) = the decoded blocks. */
typedef void skeep_body_decode(const void *blocks, size_t count, float *out);

/* One A8 row: in[n] -> ceil(n / 128) blocks. */
typedef void skeep_body_quantize_rows(const float *in, size_t n, void *blocks);

/* A tile of a product: y[t*y_stride + o] for t in [0, tokens), o in [0, rows).
 * x: tokens rows, x_stride bytes apart, of F32 (exact) or A8 (integer) over n elements.
 * w: rows rows, w_stride bytes apart, as stored (ROW_MAJOR, gap-free along n).
 * scratch: at least skeep_matmul_scratch bytes, 64-byte aligned, the calling thread's own. */
struct skeep_matmul_tile {
  const char *x;
  int64_t x_stride;
  const char *w;
  int64_t w_stride;
  float *y;
  int64_t y_stride; /* in elements */
  size_t tokens, rows, n;
  void *scratch;
};
typedef void skeep_body_matmul_t(const struct skeep_matmul_tile *tile);

#endif
