/* Shared by the encoders that search. A block is divided by a power of two, so that its largest magnitude is in [1, 2)
 * and no square overflows or vanishes. Scales are rounded to halves, as they will be stored. All sums are computed in
 * the eight lanes of dense/vec_*.h, without fused multiply-add, so that every instruction set finds the same blocks. */
#ifndef SKEEP_SEARCH_H
#define SKEEP_SEARCH_H

#include "blocks.h"
#include "codebooks.h"

/* A block being encoded. unit is the power of two that x was divided by: 0 when all elements are zero, NaN when one is
 * not finite. */
struct search_block {
  _Alignas(32) float x[256];
  float unit;
};

static inline void search_load(const skeep_f32_any *x, int n, struct search_block *b) {
  v8 max_abs = v8_set(0), not_finite = v8_set(0);
  for (int j = 0; j < n; j += 8) {
    const v8 v = v8_load(x + j);
    max_abs = v8_max(v8_abs(v), max_abs);
    not_finite = v8_add(not_finite, v8_mul(v, v8_set(0)));
  }
  const float largest = v8_largest(max_abs);
  b->unit = largest;
  if (v8_sum(not_finite) != 0) b->unit = NAN;
  if (!(b->unit > 0)) return;
  uint32_t bits; /* the next lower power of two; for a subnormal number the smallest normal one, so that 1 / unit is finite */
  memcpy(&bits, &largest, 4);
  bits &= 0x7f800000u;
  if (bits == 0) bits = 0x00800000u;
  if (bits == 0x7f000000u) bits = 0x7e800000u; /* 2^127 has a subnormal reciprocal */
  memcpy(&b->unit, &bits, 4);
  const v8 inverse = v8_set(1 / b->unit);
  for (int j = 0; j < n; j += 8) v8_store(b->x + j, v8_mul(v8_load(x + j), inverse));
}

/* The half nearest to d * unit; *d becomes its value. A d that would round to 0 becomes the smallest half instead. A d
 * so small that no product with codes and scales comes near the smallest half becomes 0, so that no inverse is
 * infinite. */
static inline uint16_t search_half(float *d, float unit) {
  if (fabsf(*d) * unit < 0x1p-40f) {
    *d = 0;
    return 0;
  }
  uint16_t h = skeep_f32_to_f16(*d * unit);
  if ((h & 0x7fffu) == 0 && *d != 0) h |= 1;
  *d = skeep_f16_to_f32(h) / unit;
  return h;
}
/* One of the next 8 integers after `largest` (of either sign) towards zero, zero excluded: the one by which value can
 * be divided with the smallest rounding error when the quotient is stored as a half. Where all else is exact, as in a
 * block of equal elements, that is the whole error. */
static inline float search_end(float value, float largest, float unit) {
  const float step = largest > 0 ? -1 : 1;
  float best = largest + step, min_loss = INFINITY;
  for (int i = 1; i <= 8 && (largest + (float)i * step) * largest > 0; i++) {
    const float end = largest + (float)i * step, exact = value / end;
    float d = exact;
    (void)search_half(&d, unit);
    const float loss = fabsf(d - exact) * fabsf(end);
    if (loss < min_loss) {
      min_loss = loss;
      best = end;
    }
  }
  return best;
}
/* The scale of a block with an element that is not finite: a NaN. */
#define SEARCH_NAN 0x7e00u

/* The integer nearest to t, ties to even, for |t| < 2^22: a sum with 1.5 * 2^23 has no bits for a fraction. */
static inline v8 search_round(v8 t) { return v8_sub(v8_add(t, v8_set(12582912.0f)), v8_set(12582912.0f)); }
/* 1 / s, or 0 when that is not finite. */
static inline float search_inverse(float s) {
  const float i = 1 / s;
  return i - i == 0 ? i : 0;
}
static inline int search_clamp(float x, int lo, int hi) {
  return x > (float)lo ? x < (float)hi ? (int)rintf(x) : hi : lo;
}

#endif
