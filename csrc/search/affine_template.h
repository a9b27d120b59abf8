/* Search for encodings with the values scale * code - minimum, with an integer scale and minimum for each group.
 *
 * For given codes, the best scale and minimum are the least-squares solution (two unknowns). For given scale and
 * minimum, the best codes are the nearest ones.
 *  - A group tries ranges a little wider and narrower than that of its elements. For each it takes the nearest codes,
 *    fits scale and minimum to them and keeps the best pair; then it repeats these two steps with that pair. Minima are
 *    not negative: a group whose elements are all positive has the minimum 0, as readers of these encodings expect.
 *  - d and dmin of the block are chosen so that the largest scale and minimum of its groups become the largest
 *    integers. Each group takes the pair of integers with the smallest error, of the nine pairs around its own. Then d
 *    and dmin are fitted to all codes of the block and rounded to halves, and the groups choose again.
 *  - A second pair of d and dmin, for slightly smaller largest integers, is tried because it may round better
 *    (search_end).
 * Errors are always those of the decoded block. */
#ifndef SKEEP_SEARCH_AFFINE_H
#define SKEEP_SEARCH_AFFINE_H
#ifndef DENSE
#error "parameters: the vectors v8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif
#include "search.h"

struct affine {
  float scale, min;
};

/* The sum of squared errors of a group for scale * q - min; and the sums over its codes that the fit needs. */
struct affine_sums {
  float error, q, qq, xq;
};
static inline v8 affine_nearest(v8 x, v8 min, v8 inverse, v8 top) {
  return search_round(v8_min(v8_max(v8_mul(v8_add(x, min), inverse), v8_set(0)), top));
}
static inline float affine_error(const float *x, int n, int top, struct affine a) {
  const v8 s = v8_set(a.scale), m = v8_set(a.min), inverse = v8_set(search_inverse(a.scale)), t = v8_set((float)top);
  v8 sum = v8_set(0);
  for (int j = 0; j < n; j += 8) {
    const v8 v = v8_load(x + j), e = v8_sub(v, v8_sub(v8_mul(s, affine_nearest(v, m, inverse, t)), m));
    sum = v8_add(sum, v8_mul(e, e));
  }
  return v8_sum(sum);
}
static inline void affine_sums(const float *x, int n, int top, struct affine a, struct affine_sums *sums) {
  const v8 m = v8_set(a.min), inverse = v8_set(search_inverse(a.scale)), t = v8_set((float)top);
  v8 q1 = v8_set(0), qq = q1, xq = q1;
  for (int j = 0; j < n; j += 8) {
    const v8 v = v8_load(x + j), q = affine_nearest(v, m, inverse, t);
    q1 = v8_add(q1, q);
    qq = v8_add(qq, v8_mul(q, q));
    xq = v8_add(xq, v8_mul(v, q));
  }
  sums->q = v8_sum(q1);
  sums->qq = v8_sum(qq);
  sums->xq = v8_sum(xq);
}

/* The least-squares scale and minimum for these codes, neither negative. *error is the error minus the sum of squares
 * of x. */
static inline struct affine affine_fit(const struct affine_sums *s, int n, float sum, float *error) {
  struct affine a = {0, 0};
  const float det = (float)n * s->qq - s->q * s->q;
  if (det > 0) {
    a.scale = ((float)n * s->xq - sum * s->q) / det;
    a.min = (s->q * s->xq - s->qq * sum) / det;
  }
  if (!(det > 0) || a.min < 0 || a.scale < 0) {
    a.min = 0;
    a.scale = s->qq > 0 && s->xq > 0 ? s->xq / s->qq : 0;
  }
  *error = a.scale * (a.scale * s->qq - 2 * s->xq) + a.min * ((float)n * a.min + 2 * sum - 2 * a.scale * s->q);
  return a;
}

/* The best scale and minimum of a group, not yet rounded to those of the block. */
static inline struct affine affine_group(const float *x, int n, int top) {
  const float step = 0.2f;
  const int steps = 6;
  v8 max_x = v8_load(x), min_x = max_x, total = v8_set(0);
  for (int j = 0; j < n; j += 8) {
    const v8 v = v8_load(x + j);
    max_x = v8_max(v, max_x);
    min_x = v8_min(v, min_x);
    total = v8_add(total, v);
  }
  const float hi = v8_largest(max_x), sum = v8_sum(total);
  float lo = -v8_largest(v8_sub(v8_set(0), min_x));
  if (lo > 0) lo = 0;
  struct affine best = {0, -lo};
  if (!(hi > lo)) return best; /* one value, not above zero */
  float min_error = 0;
  for (int i = steps; i >= -steps - 3; i--) {
    /* When errors are equal, except for rounding of the sums, the smallest scale is taken, which comes first. The last
     * rounds start from the best pair so far. */
    struct affine a = i < -steps ? best : (struct affine){(hi - lo) / ((float)top + (float)i * step), -lo};
    struct affine_sums s;
    float error;
    affine_sums(x, n, top, a, &s);
    a = affine_fit(&s, n, sum, &error);
    if (error < min_error - 1e-6f * fabsf(min_error) || i == steps) {
      min_error = error;
      best = a;
    } else if (i < -steps) {
      break;
    }
  }
  return best;
}

/* A block of groups of n elements with codes up to top; scales and minima are integers up to max_integer. */
struct affine_grid {
  int groups, n, top, max_integer;
};
struct affine_block {
  uint16_t d, dmin;
  uint8_t scales[16], mins[16], q[256];
};

/* Chooses the best pair of integers of each group for d and dmin and returns the error of the block. *fit gets the d
 * and dmin that fit the codes best. */
static inline float affine_choose(const float *x, const struct affine_grid *g, const struct affine *own, float d,
                                  float dmin, uint8_t *scales, uint8_t *mins, struct affine *fit) {
  float total = 0;
  double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0; /* a = scale * q, b = min of each element */
  for (int i = 0; i < g->groups; i++, x += g->n) {
    const int s0 = d != 0 ? search_clamp(own[i].scale / d, 0, g->max_integer) : 0;
    const int m0 = dmin != 0 ? search_clamp(own[i].min / dmin, 0, g->max_integer) : 0;
    float min_error = INFINITY;
    for (int s = s0 > 0 ? s0 - 1 : 0; s <= s0 + 1 && s <= g->max_integer; s++)
      for (int m = m0 > 0 ? m0 - 1 : 0; m <= m0 + 1 && m <= g->max_integer; m++) {
        const float e = affine_error(x, g->n, g->top, (struct affine){d * (float)s, dmin * (float)m});
        if (e < min_error) {
          min_error = e;
          scales[i] = (uint8_t)s;
          mins[i] = (uint8_t)m;
        }
      }
    total += min_error;
    const double s = scales[i], m = mins[i];
    struct affine_sums sums;
    v8 sum = v8_set(0);
    for (int j = 0; j < g->n; j += 8) sum = v8_add(sum, v8_load(x + j));
    affine_sums(x, g->n, g->top, (struct affine){d * (float)s, dmin * (float)m}, &sums);
    aa += s * s * sums.qq;
    ab += s * m * sums.q;
    bb += m * m * g->n;
    xa += s * sums.xq;
    xb += m * v8_sum(sum);
  }
  const double det = aa * bb - ab * ab;
  double fd = aa > 0 ? xa / aa : 0, fm = 0;
  if (det > 1e-9 * aa * bb) {
    const double td = (xa * bb - ab * xb) / det, tm = (ab * xa - aa * xb) / det;
    if (tm > 0 && td > 0) fd = td, fm = tm;
  } else if (bb > 0 && xb < 0 && !(aa > 0)) {
    fm = -xb / bb;
  }
  *fit = (struct affine){(float)fd, (float)fm};
  return total;
}

static inline void affine_block(const struct search_block *b, const struct affine_grid *g, struct affine_block *y) {
  struct affine own[16], best = {0, 0};
  float largest = 0, deepest = 0, min_error = INFINITY;
  memset(y, 0, sizeof *y);
  if (b->unit == 0) return;
  y->d = SEARCH_NAN;
  if (b->unit != b->unit) return;
  for (int i = 0; i < g->groups; i++) {
    own[i] = affine_group(b->x + i * g->n, g->n, g->top);
    largest = own[i].scale > largest ? own[i].scale : largest;
    deepest = own[i].min > deepest ? own[i].min : deepest;
  }
  const float end_max = (float)g->max_integer, scale_ends[2] = {end_max, search_end(largest, end_max, b->unit)},
              min_ends[2] = {end_max, search_end(deepest, end_max, b->unit)};
  for (int end = 0; end < 2; end++) {
    struct affine fit = {largest / scale_ends[end], deepest / min_ends[end]};
    for (int pass = 2 * end; pass < 3; pass++) {
      const uint16_t d = search_half(&fit.scale, b->unit), dmin = search_half(&fit.min, b->unit);
      const struct affine used = fit;
      if (used.scale - used.scale != 0 || used.min - used.min != 0) break; /* too large for a half */
      uint8_t scales[16] = {0}, mins[16] = {0};
      const float error = affine_choose(b->x, g, own, used.scale, used.min, scales, mins, &fit);
      if (error < min_error) {
        min_error = error;
        best = used;
        y->d = d;
        y->dmin = dmin;
        memcpy(y->scales, scales, sizeof scales);
        memcpy(y->mins, mins, sizeof mins);
      }
    }
  }
  for (int i = 0; i < g->groups; i++) {
    const float scale = best.scale * (float)y->scales[i];
    const v8 m = v8_set(best.min * (float)y->mins[i]), inverse = v8_set(search_inverse(scale));
    for (int j = i * g->n; j < (i + 1) * g->n; j += 8) {
      float q[8];
      v8_store(q, affine_nearest(v8_load(b->x + j), m, inverse, v8_set((float)g->top)));
      for (int l = 0; l < 8; l++) y->q[j + l] = (uint8_t)(int)q[l];
    }
  }
}

#endif
