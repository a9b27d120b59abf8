/* Root mean square normalization with residuals. The squares are summed in double, lane by lane along the row, so
 * that the length of the row costs no accuracy and the square cannot overflow. An element is scaled, weighted and added
 * in double too: the inverse root or the quotient may be out of the range of floats where the result is not. */
#ifndef DENSE
#error "parameters: the vectors v8 and d8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif

void DENSE(norm_f32)(const struct skeep_norm_rows *a) {
  for (size_t r = 0; r < a->rows; r++) {
    const int64_t at = (int64_t)r;
    const char *x = a->x + at * a->x_stride, *before = a->before ? a->before + at * a->before_stride : NULL;
    const char *after = a->after ? a->after + at * a->after_stride : NULL;
    char *sum = a->sum ? a->sum + at * a->sum_stride : NULL, *y = a->y + at * a->y_stride;
    d8 squares = d8_set(0);
    for (size_t i = 0; i < a->n; i += 8) {
      v8 s = v8_get(x + 4 * i, a->n - i);
      if (before) s = v8_add(s, v8_get(before + 4 * i, a->n - i));
      if (sum) v8_put(sum + 4 * i, s, a->n - i);
      const d8 wide = d8_widen(s);
      squares = d8_fma(wide, wide, squares);
    }
    if (sum) x = sum, before = NULL; /* sum may have replaced x or before */
    const d8 inverse = d8_set(1 / sqrt(d8_sum(squares) / (double)a->n + (double)a->eps));
    for (size_t i = 0; i < a->n; i += 8) {
      v8 s = v8_get(x + 4 * i, a->n - i);
      if (before) s = v8_add(s, v8_get(before + 4 * i, a->n - i));
      d8 wide = d8_mul(d8_mul(d8_widen(s), inverse), d8_widen(v8_get(a->w + 4 * i, a->n - i)));
      if (after) wide = d8_add(wide, d8_widen(v8_get(after + 4 * i, a->n - i)));
      v8_put(y + 4 * i, d8_narrow(wide), a->n - i);
    }
  }
}
