/* Search for encodings with one scale d and the codes -1, 0 and 1, or -1 and 1.
 *
 * When k elements are not zero, the best choice is the k largest in magnitude, and the best scale is their mean
 * magnitude. The error is then the sum of all squares minus (sum of those magnitudes)^2 / k. So every k is tried. An
 * element becomes zero when it is below half of the scale: with the best k, that selects the same elements. A block
 * that is ternary already stays as it is. */
#ifndef SKEEP_SEARCH_TERNARY_H
#define SKEEP_SEARCH_TERNARY_H
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

#endif
