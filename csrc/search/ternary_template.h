/* Formats of one scale d whose codes are -1, 0 and 1, or -1 and 1.
 *
 * With k elements not zero, the best are the k largest in magnitude and the best scale is their mean magnitude; the
 * error is the sum of squares less (sum of those magnitudes)^2 / k. So all k are tried. An element is zero when it is
 * below half of the scale: for the best k that picks the same elements. A block that is ternary already is kept. */
#ifndef DENSE
#error "parameters: the vectors v8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif
#include "search.h"

/* In descending order: shell sort, for a few hundred elements. */
static inline void ternary_sort(float *x, int n) {
  static const int gaps[] = {132, 57, 23, 10, 4, 1}; /* Ciura 2001 */
  for (int k = 0; k < 6; k++)
    for (int i = gaps[k]; i < n; i++) {
      const float v = x[i];
      int j = i;
      for (; j >= gaps[k] && x[j - gaps[k]] < v; j -= gaps[k]) x[j] = x[j - gaps[k]];
      x[j] = v;
    }
}

/* Codes 0, 1, 2 of -1, 0, 1; returns the half. */
static inline uint16_t ternary_block(const struct search_block *b, int n, uint8_t *code) {
  memset(code, 1, (size_t)n);
  if (!(b->unit > 0)) return b->unit == 0 ? 0 : SEARCH_NAN;
  float magnitude[256], d = 0, gain = 0, sum = 0;
  for (int j = 0; j < n; j++) magnitude[j] = fabsf(b->x[j]);
  ternary_sort(magnitude, n);
  for (int k = 1; k <= n; k++) {
    sum += magnitude[k - 1];
    if (sum * sum > gain * (float)k) {
      gain = sum * sum / (float)k;
      d = sum / (float)k;
    }
  }
  const uint16_t half = search_half(&d, b->unit);
  for (int j = 0; j < n; j++) code[j] = (uint8_t)(1 + (b->x[j] > d / 2) - (b->x[j] < -d / 2));
  return half;
}

/* Five trits a byte: with v the number whose base-3 digits they are, the byte is the least that is not below
 * v * 256 / 243, which is what decoding by multiplication needs. */
static inline uint8_t ternary_byte(const uint8_t *code, int stride, int trits) {
  uint32_t v = 0;
  for (int i = 0; i < 5; i++) v = v * 3 + (i < trits ? code[i * stride] : 0);
  return (uint8_t)((v * 256 + 242) / 243);
}

void DENSE(encode_tq1_0)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_tq1_0 *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    uint8_t q[256];
    search_load(x, 256, &b);
    y->d = ternary_block(&b, 256, q);
    for (int j = 0; j < 32; j++) y->qs[j] = ternary_byte(q + j, 32, 5);
    for (int j = 0; j < 16; j++) y->qs[32 + j] = ternary_byte(q + 160 + j, 16, 5);
    for (int j = 0; j < 4; j++) y->qh[j] = ternary_byte(q + 240 + j, 4, 4);
  }
}

void DENSE(encode_tq2_0)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_tq2_0 *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    uint8_t q[256];
    search_load(x, 256, &b);
    y->d = ternary_block(&b, 256, q);
    for (int j = 0; j < 64; j++) {
      const uint8_t *e = q + j / 32 * 128 + j % 32;
      y->qs[j] = (uint8_t)(e[0] | e[32] << 2 | e[64] << 4 | e[96] << 6);
    }
  }
}

/* Without a zero the best scale is the mean magnitude. */
void DENSE(encode_q1_0)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_q1_0 *y = blocks;
  for (; count--; x += 128, y++) {
    struct search_block b;
    search_load(x, 128, &b);
    memset(y->bits, 0, sizeof y->bits);
    y->d = b.unit == 0 ? 0 : SEARCH_NAN;
    if (!(b.unit > 0)) continue;
    v8 sum = v8_set(0);
    for (int j = 0; j < 128; j += 8) sum = v8_add(sum, v8_abs(v8_load(b.x + j)));
    float d = v8_sum(sum) / 128;
    y->d = search_half(&d, b.unit);
    for (int j = 0; j < 128; j++) y->bits[j / 8] |= (uint8_t)((b.x[j] >= 0) << j % 8);
  }
}
