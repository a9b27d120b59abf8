/* The types of kernel bodies, and their prototypes. Part of internal.h. */
#ifndef SKEEP_BODIES_H
#define SKEEP_BODIES_H

/* A body is the function of one kernel. It takes raw pointers and checks nothing: its caller guarantees that extents
 * are > 0 and that inputs are live, in bounds and do not overlap outputs (unless the operation allows the same view).
 * Pointers may have any alignment. Bodies allocate nothing and access exactly the bytes described here. */

/* out[0 .. count*block_elements) = the decoded blocks. */
typedef void skeep_body_decode(const void *blocks, size_t count, float *out);

/* blocks[0 .. count) = the encoding of in[count*block_elements). */
typedef void skeep_body_encode(const float *in, size_t count, void *blocks);

/* One A8 row: in[n] -> ceil(n / 128) blocks. */
typedef void skeep_body_quantize_rows(const float *in, size_t n, void *blocks);

/* A tile of a product: y[t*y_stride + o] for t in [0, tokens), o in [0, rows).
 * x: tokens rows, x_stride bytes apart, of F32 (exact) or A8 (integer) over n elements.
 * w: rows rows, w_stride bytes apart, as stored (ROW_MAJOR, gap-free along n). In feed order, rows is a multiple of
 *    SKEEP_FEED_PANEL and each panel of so many rows follows the one before it; w_stride is the bytes of a row.
 * scratch: the calling thread's own, 64-byte aligned, SKEEP_MATMUL_SCRATCH bytes. */
struct skeep_matmul_tile {
  const char *x;
  int64_t x_stride;
  const char *w;
  int64_t w_stride;
  float *y;
  int64_t y_stride; /* in elements */
  size_t tokens, rows, n;
  void *scratch;
  uint32_t ahead;  /* bytes by which weights in feed order are prefetched for a few tokens; 0 = not */
  uint32_t panels; /* in feed order that are read side by side for one token, 1 or 2 */
};
typedef void skeep_body_matmul_t(const struct skeep_matmul_tile *tile);

/* Operations on rows of n F32 elements, *_stride bytes from one row to the next. */
struct skeep_rows {
  const char *a, *b; /* b: the second input of add, mul and glu; one row for all has stride 0 */
  char *y;           /* may be a or b */
  int64_t a_stride, b_stride, y_stride;
  size_t rows, n;
  float parameter; /* softmax: scale; softcap: cap */
  uint32_t form;   /* glu: SKEEP_GLU_* */
};
typedef void skeep_body_rowwise(const struct skeep_rows *o);

/* As skeep_norm; before, after and sum may be NULL. sum may be x or before, y any input. */
struct skeep_norm_rows {
  const char *x, *before, *w, *after;
  char *sum, *y;
  int64_t x_stride, before_stride, after_stride, sum_stride, y_stride;
  size_t rows, n;
  float eps;
};
typedef void skeep_body_norm(const struct skeep_norm_rows *a);

/* Rotates tokens x heads rows; pair i of a token turns by position * theta[i]. y may be x. */
struct skeep_rope_rows {
  const char *x, *positions; /* I32, position_stride bytes apart */
  char *y;
  int64_t x_token, x_head, y_token, y_head, position_stride; /* bytes */
  size_t tokens, heads, head_dim, dims;
  const double *theta; /* dims/2, then 0 up to a multiple of 8 */
  float magnitude;     /* of cos and sin */
  uint32_t form;
  float *scratch; /* SKEEP_ROPE_SCRATCH(dims) floats */
};
#define SKEEP_ROPE_SCRATCH(dims) (((dims) / 2 + 7) / 8 * 8 * 6 + 16)
typedef void skeep_body_rope(const struct skeep_rope_rows *a);

/* Converts one row of n F32 elements to the encoding of the cache. Not 0 when an element became infinite or was it
 * before. */
typedef int skeep_body_kv_store(const char *in, size_t n, char *out);
/* The smallest magnitudes that round to infinity: half a unit above the largest number, whose mantissa is odd. */
#define SKEEP_F16_LIMIT 65520.0f
#define SKEEP_BF16_LIMIT 0x1.ffp127f

/* Query rows (token-major) against one chunk [begin, end) of positions of one sequence and KV head. Token t sees
 * the positions [lo[t], hi[t]), all stored, hi - lo <= capacity; k and v are slot 0, slots *_slot bytes apart. begin
 * is a multiple of SKEEP_ATTEND_BLOCK. Writes of each row its largest score (-inf without any), the sum of
 * exp(score - largest) and acc = sum of exp(score - largest) * shrink * value, rows round_up(v_dim, 8) apart. */
#define SKEEP_ATTEND_BLOCK 64
#define SKEEP_ATTEND_ROWS 32
struct skeep_attend_tile {
  const char *q, *k, *v;
  int64_t q_token, q_head, k_slot, v_slot; /* bytes */
  int64_t capacity, begin, end;
  const int64_t *lo, *hi;
  size_t tokens, heads, k_dim, v_dim; /* tokens * heads <= SKEEP_ATTEND_ROWS */
  float scale, softcap, shrink; /* shrink: a power of two */
  float *max_score, *sum, *acc;
  float *scratch; /* skeep_attend_scratch floats, 64-byte aligned */
};
static inline size_t skeep_attend_scratch(size_t rows, size_t k_dim, size_t v_dim) {
  k_dim = (k_dim + 7) / 8 * 8, v_dim = (v_dim + 7) / 8 * 8;
  rows = (rows + 1) / 2 * 2; /* a vector may hold two rows */
  return rows * (k_dim + SKEEP_ATTEND_BLOCK + 8 + 8) + SKEEP_ATTEND_BLOCK * (k_dim + v_dim);
}
typedef void skeep_body_attend(const struct skeep_attend_tile *a);
/* Bytes of scratch that every task has at least. */
#define SKEEP_MATMUL_SCRATCH (512u << 10)

/* Prototypes of all bodies, so that each definition is checked against the type of its row. */
#define SKEEP_KERNEL(OP, type, encoding, activation, order, isa, body) skeep_body_##type skeep_##body;
#include "generated/kernels_table.h"
#undef SKEEP_KERNEL

#endif
