/* Operations on independent elements, and softmax. An element's result does not depend on where its row is cut. */
#ifndef DENSE
#error "parameters: the vectors v8 and d8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif

void DENSE(add_f32)(const struct skeep_rows *o) {
  for (size_t r = 0; r < o->rows; r++) {
    const char *a = o->a + (int64_t)r * o->a_stride, *b = o->b + (int64_t)r * o->b_stride;
    char *y = o->y + (int64_t)r * o->y_stride;
    for (size_t i = 0; i < o->n; i += 8)
      v8_put(y + 4 * i, v8_add(v8_get(a + 4 * i, o->n - i), v8_get(b + 4 * i, o->n - i)), o->n - i);
  }
}

void DENSE(mul_f32)(const struct skeep_rows *o) {
  for (size_t r = 0; r < o->rows; r++) {
    const char *a = o->a + (int64_t)r * o->a_stride, *b = o->b + (int64_t)r * o->b_stride;
    char *y = o->y + (int64_t)r * o->y_stride;
    for (size_t i = 0; i < o->n; i += 8)
      v8_put(y + 4 * i, v8_mul(v8_get(a + 4 * i, o->n - i), v8_get(b + 4 * i, o->n - i)), o->n - i);
  }
}

/* cap * tanh(x / cap). For small x that is x, except for the last bit, and x / cap may be subnormal: there the result
 * is x. */
void DENSE(softcap_f32)(const struct skeep_rows *o) {
  const v8 cap = v8_set(o->parameter), small = v8_set(o->parameter * 0x1p-13f);
  for (size_t r = 0; r < o->rows; r++) {
    const char *a = o->a + (int64_t)r * o->a_stride;
    char *y = o->y + (int64_t)r * o->y_stride;
    for (size_t i = 0; i < o->n; i += 8) {
      const v8 x = v8_get(a + 4 * i, o->n - i), capped = v8_mul(cap, v8_tanh(v8_div(x, cap)));
      v8_put(y + 4 * i, v8_if_less(v8_abs(x), small, x, capped), o->n - i);
    }
  }
}

/* exp(scale*(x - extreme)) / sum, where extreme is the x with the largest scale * x. Subtracting before scaling makes
 * the error grow with the distance from the extreme and not with the magnitude of x. When the extreme is 2^103 or more,
 * the difference may overflow although a small scale gives a result in range: then it is computed with halved numbers,
 * which is exact. */
void DENSE(softmax_f32)(const struct skeep_rows *o) {
  const v8 scale = v8_set(o->parameter), sign = v8_copysign(v8_set(1), scale), low = v8_set(-INFINITY);
  for (size_t r = 0; r < o->rows; r++) {
    const char *a = o->a + (int64_t)r * o->a_stride;
    char *y = o->y + (int64_t)r * o->y_stride;
    v8 max_x = low;
    for (size_t i = 0; i < o->n; i += 8) {
      const v8 x = v8_mul(sign, v8_get(a + 4 * i, o->n - i)), rest = v8_set((float)(o->n - i));
      max_x = v8_max(v8_if_less(v8_lanes(), rest, x, low), max_x);
    }
    const float largest = v8_largest(max_x), part = largest >= 0x1p103f ? 0.5f : 1;
    const v8 half = v8_set(part), twice = v8_set(1 / part), extreme = v8_mul(sign, v8_set(largest * part));
    d8 sum = d8_set(0);
    for (size_t i = 0; i < o->n; i += 8) {
      const v8 rest = v8_set((float)(o->n - i));
      const v8 e = v8_exp(v8_mul(twice, v8_mul(scale, v8_sub(v8_mul(half, v8_get(a + 4 * i, o->n - i)), extreme))));
      v8_put(y + 4 * i, e, o->n - i);
      sum = d8_add(sum, d8_widen(v8_if_less(v8_lanes(), rest, e, v8_set(0))));
    }
    const v8 total = v8_set((float)d8_sum(sum));
    for (size_t i = 0; i < o->n; i += 8) v8_put(y + 4 * i, v8_div(v8_get(y + 4 * i, o->n - i), total), o->n - i);
  }
}

/* act(x) = result * 2^n with n <= 0 and a normal result, so that no bits are lost when act(x) is subnormal and is then
 * multiplied by a large factor. Each form is x * g(x), where g rises from 0 to 1; with e = exp(-z), z >= 0 growing with
 * |x|:
 *   SiLU        g(|x|) = 1 / (1 + e),        g(-|x|) = e / (1 + e),  z = |x|
 *   GELU tanh   the same with z = 2*sqrt(2/pi) * (|x| + 0.044715*|x|^3)
 *   GELU erf    g(|x|) = 1 - e * tail(|x|),  g(-|x|) = e * tail(|x|),  z = x^2/2
 * z is computed in double where it is not exact. Negative x are clamped where the product with any factor is 0. */
static inline v8 v8_gate(v8 x, const uint32_t form, v8 *n) {
  const v8 limit = v8_set(form == SKEEP_GLU_SILU ? 200 : form == SKEEP_GLU_GELU_TANH ? 14 : 20), zero = v8_set(0);
  const v8 a = v8_min(limit, v8_abs(x)), tiny = v8_set(0x1p-100f);
  x = v8_if_less(a, tiny, v8_mul(x, v8_set(0x1p24f)), x);
  const v8 low = v8_max(v8_sub(zero, limit), x);
  const d8 wide = d8_widen(a);
  v8 m;
  if (form == SKEEP_GLU_SILU) {
    m = v8_exp_parts(v8_sub(zero, a), n);
  } else {
    const d8 square = d8_mul(wide, wide);
    const double c = 1.5957691216057308; /* 2*sqrt(2/pi) */
    m = d8_exp_parts(form == SKEEP_GLU_GELU_ERF
                         ? d8_mul(square, d8_set(-0.5))
                         : d8_mul(wide, d8_fma(square, d8_set(-0.044715 * c), d8_set(-c))),
                     n);
  }
  const v8 e = v8_mul(m, v8_power_of_2(v8_max(v8_set(-126), *n))); /* used next to 1 only */
  v8 y;
  if (form == SKEEP_GLU_GELU_ERF) {
    const v8 tail = d8_normal_tail(wide);
    y = v8_if_less(x, zero, v8_mul(low, v8_mul(tail, m)), v8_mul(x, v8_sub(v8_set(1), v8_mul(tail, e))));
  } else {
    y = v8_div(v8_if_less(x, zero, v8_mul(low, m), x), v8_add(v8_set(1), e));
  }
  *n = v8_if_less(x, zero, *n, zero);
  *n = v8_if_less(a, tiny, v8_sub(*n, v8_set(24)), *n);
  return y;
}
static inline void glu_rows(const struct skeep_rows *o, const uint32_t form) {
  for (size_t r = 0; r < o->rows; r++) {
    const char *gate = o->a + (int64_t)r * o->a_stride, *up = o->b + (int64_t)r * o->b_stride;
    char *y = o->y + (int64_t)r * o->y_stride;
    for (size_t i = 0; i < o->n; i += 8) {
      const v8 g = v8_get(gate + 4 * i, o->n - i), u = v8_get(up + 4 * i, o->n - i);
      v8 z;
      if (form == SKEEP_GLU_RELU) {
        z = v8_mul(v8_max(v8_set(0), g), u);
      } else {
        /* act * 2^n * up. Two thirds of the power of two are applied before up: then |act| is at most 1 whenever act * 2^n is, and
         * the product with up overflows only where the result does. Not less than 2^-96, or act would underflow first. */
        v8 n;
        const v8 act = v8_gate(g, form, &n), third = v8_round(v8_mul(n, v8_set(1 / 3.0f)));
        const v8 before = v8_max(v8_set(-96), v8_add(third, third)), left = v8_sub(n, before);
        const v8 half = v8_round(v8_mul(left, v8_set(0.5f)));
        z = v8_mul(v8_mul(act, v8_power_of_2(before)), u);
        z = v8_mul(v8_mul(z, v8_power_of_2(half)), v8_power_of_2(v8_sub(left, half)));
      }
      v8_put(y + 4 * i, z, o->n - i);
    }
  }
}
void DENSE(glu_f32)(const struct skeep_rows *o) {
  switch (o->form) { /* a constant in each arm: one loop per form */
  case SKEEP_GLU_SILU: glu_rows(o, SKEEP_GLU_SILU); break;
  case SKEEP_GLU_GELU_TANH: glu_rows(o, SKEEP_GLU_GELU_TANH); break;
  case SKEEP_GLU_GELU_ERF: glu_rows(o, SKEEP_GLU_GELU_ERF); break;
  default: glu_rows(o, SKEEP_GLU_RELU);
  }
}
