/* Search for encodings with the values scale * code.
 *
 * A code is an integer from lo to hi, or one of the values of a codebook. For given codes, the best scale is the
 * least-squares one, sum(x*q) / sum(q*q). For a given scale, the best codes are the nearest ones.
 *  - A group tries scales with which its largest element becomes the largest code, or a little more or less. For each
 *    it takes the nearest codes, fits the scale to them and keeps the best scale; then it repeats these two steps with
 *    it.
 *  - In encodings with a scale of scales, d of the block is chosen so that the largest scale of its groups becomes the
 *    largest integer. Each group takes the integer with the smallest error, of the three around its own scale. Then d
 *    is fitted to all codes of the block and rounded to half, and the groups choose again.
 *  - A second d, for a slightly smaller largest integer, is tried because it may round better (search_end).
 * Errors are always those of the decoded block. */
#ifndef SKEEP_SEARCH_SCALED_H
#define SKEEP_SEARCH_SCALED_H
#ifndef DENSE
#error "parameters: the vectors v8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif
#include "search.h"

/* The codes: n values in ascending order and the midpoints between neighbors; n = 0: the integers in [lo, hi]. */
struct scaled_codes {
  float lo, hi;
  int n;
  float value[16], middle[15];
};
/* Which scales a group tries: those with which its largest element becomes the code end + i * step, for i in [-steps,
 * steps] and each end that is not 0. */
struct scaled_search {
  float end[2], step;
  int steps;
};

static inline v8 scaled_nearest(const struct scaled_codes *c, v8 t) {
  if (!c->n) return search_round(v8_min(v8_max(t, v8_set(c->lo)), v8_set(c->hi)));
  v8 q = v8_set(c->value[0]);
  for (int k = 0; k + 1 < c->n; k++) q = v8_if_less(v8_set(c->middle[k]), t, v8_set(c->value[k + 1]), q);
  return q;
}

/* sum(x*q) and sum(q*q) for the nearest codes q of the scale. */
static inline void scaled_sums(const float *x, int n, const struct scaled_codes *c, float scale, float *xq, float *qq) {
  const v8 inverse = v8_set(search_inverse(scale));
  v8 a = v8_set(0), b = v8_set(0);
  for (int j = 0; j < n; j += 8) {
    const v8 v = v8_load(x + j), q = scaled_nearest(c, v8_mul(v, inverse));
    a = v8_add(a, v8_mul(v, q));
    b = v8_add(b, v8_mul(q, q));
  }
  *xq = v8_sum(a);
  *qq = v8_sum(b);
}

/* The sum of squared errors of a scale. */
static inline float scaled_error(const float *x, int n, const struct scaled_codes *c, float scale) {
  const v8 inverse = v8_set(search_inverse(scale)), s = v8_set(scale);
  v8 sum = v8_set(0);
  for (int j = 0; j < n; j += 8) {
    const v8 v = v8_load(x + j), e = v8_sub(v, v8_mul(s, scaled_nearest(c, v8_mul(v, inverse))));
    sum = v8_add(sum, v8_mul(e, e));
  }
  return v8_sum(sum);
}

/* The element of largest magnitude, with its sign. */
static inline float search_extreme(const float *x, int n) {
  v8 max_x = v8_set(0), min_x = v8_set(0);
  for (int j = 0; j < n; j += 8) {
    max_x = v8_max(max_x, v8_load(x + j));
    min_x = v8_min(min_x, v8_load(x + j));
  }
  const float hi = v8_largest(max_x), lo = -v8_largest(v8_sub(v8_set(0), min_x));
  return hi > -lo ? hi : lo;
}

/* The best scale of a group, not yet rounded to that of the block. */
static inline float scaled_scale(const float *x, int n, const struct scaled_codes *c, const struct scaled_search *how) {
  const float extreme = search_extreme(x, n);
  float best = 0, gain = 0, xq, qq;
  if (extreme == 0) return 0;
  for (int end = 0; end < 2 && how->end[end] != 0; end++)
    for (int i = -how->steps; i <= how->steps; i++) {
      scaled_sums(x, n, c, extreme / (how->end[end] + (float)i * how->step), &xq, &qq);
      if (qq > 0 && xq * xq > gain * qq) { /* the error is sum(x*x) minus the gain */
        gain = xq * xq / qq;
        best = xq / qq;
      }
    }
  for (int i = 0; i < 3 && best != 0; i++) {
    scaled_sums(x, n, c, best, &xq, &qq);
    if (!(qq > 0 && xq * xq > gain * qq)) break;
    gain = xq * xq / qq;
    best = xq / qq;
  }
  return best;
}

/* The index in the list of the code of each element. */
static inline void scaled_indices(const float *x, int n, const struct scaled_codes *c, float scale, uint8_t *index) {
  const v8 inverse = v8_set(search_inverse(scale));
  float t[8];
  for (int j = 0; j < n; j += 8) {
    const v8 v = v8_mul(v8_load(x + j), inverse);
    v8_store(t, c->n ? v : scaled_nearest(c, v));
    for (int l = 0; l < 8; l++) {
      if (c->n) {
        int k = 0;
        for (int i = 0; i + 1 < c->n; i++) k += c->middle[i] < t[l];
        index[j + l] = (uint8_t)k;
      } else {
        index[j + l] = (uint8_t)(int)(t[l] - c->lo);
      }
    }
  }
}

/* The indices of a block of zeros or with a NaN or infinity: all that of the code nearest to zero. */
static inline uint16_t scaled_trivial(const struct search_block *b, int n, const struct scaled_codes *c, uint8_t *index) {
  static const float zeros[8] = {0};
  uint8_t zero[8];
  scaled_indices(zeros, 8, c, 0, zero);
  memset(index, zero[0], (size_t)n);
  return b->unit == 0 ? 0 : SEARCH_NAN;
}

/* A block with one scale d. Writes the indices; returns the half. */
static inline uint16_t scaled_single(const struct search_block *b, int n, const struct scaled_codes *c,
                                     const struct scaled_search *how, uint8_t *index) {
  if (!(b->unit > 0)) return scaled_trivial(b, n, c, index);
  float d = scaled_scale(b->x, n, c, how), best = INFINITY;
  uint16_t half = SEARCH_NAN;
  scaled_trivial(b, n, c, index); /* for a block that is too large for a half */
  for (int i = 0; i < 2; i++) { /* with the scale as found; then with the scale fitted to the codes of the rounded one */
    float rounded = d;
    const uint16_t h = search_half(&rounded, b->unit);
    if (rounded - rounded != 0) break; /* too large for a half */
    const float error = scaled_error(b->x, n, c, rounded);
    if (error < best) {
      best = error;
      half = h;
      scaled_indices(b->x, n, c, rounded, index);
    }
    float xq, qq;
    scaled_sums(b->x, n, c, rounded, &xq, &qq);
    if (qq > 0) d = xq / qq;
  }
  return half;
}

/* A block of groups of n elements, each with the scale d * integer, the integer in [lo, hi] with -lo > hi. */
struct scaled_grid {
  int groups, n, lo, hi;
};
static inline uint16_t scaled_block(const struct search_block *b, const struct scaled_grid *g,
                                    const struct scaled_codes *c, const struct scaled_search *how, int8_t *scales,
                                    uint8_t *index) {
  float own[16], largest = 0, min_error = INFINITY;
  uint16_t half = SEARCH_NAN;
  memset(scales, 0, (size_t)g->groups);
  if (!(b->unit > 0)) return scaled_trivial(b, g->groups * g->n, c, index);
  for (int i = 0; i < g->groups; i++) {
    own[i] = scaled_scale(b->x + i * g->n, g->n, c, how);
    if (fabsf(own[i]) > fabsf(largest)) largest = own[i];
  }
  float best_d = 0; /* with the scales 0, for a block that is too large for a half */
  const float ends[2] = {(float)g->lo, search_end(largest, (float)g->lo, b->unit)};
  for (int end = 0; end < 2; end++) {
    float d = largest / ends[end];
    for (int pass = end; pass < 2; pass++) {
      const uint16_t h = search_half(&d, b->unit);
      if (d - d != 0) break; /* too large for a half */
      float total = 0;
      double xq = 0, qq = 0;
      int8_t chosen[16] = {0};
      for (int i = 0; i < g->groups; i++) {
        const float *x = b->x + i * g->n;
        const int near = search_clamp(own[i] / d, g->lo, g->hi);
        float error = INFINITY;
        for (int s = near - 1; s <= near + 1; s++) {
          if (s < g->lo || s > g->hi) continue;
          const float e = scaled_error(x, g->n, c, d * (float)s);
          if (e < error) {
            error = e;
            chosen[i] = (int8_t)s;
          }
        }
        total += error;
        float a, q;
        scaled_sums(x, g->n, c, d * (float)chosen[i], &a, &q);
        xq += (double)chosen[i] * a;
        qq += (double)chosen[i] * chosen[i] * q;
      }
      if (total < min_error) {
        min_error = total;
        half = h;
        best_d = d;
        memcpy(scales, chosen, (size_t)g->groups);
      }
      if (!(qq > 0)) break;
      d = (float)(xq / qq);
    }
  }
  for (int i = 0; i < g->groups; i++)
    scaled_indices(b->x + i * g->n, g->n, c, best_d * (float)scales[i], index + i * g->n);
  return half;
}

#endif
