/* Root mean square normalisation with residuals. The squares are summed in double, lane by lane along the row, so
 * that the length of the row costs no accuracy and the square cannot overflow. Where the inverse root is beyond a
 * normal float (rows near either end of the range), a power of two goes over to the elements. */
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
    const double root = 1 / sqrt(d8_sum(squares) / (double)a->n + (double)a->eps);
    const double lift = root > 0x1p100 ? 0x1p64 : root < 0x1p-100 ? 0x1p-64 : 1;
    const v8 lifted = v8_set((float)lift), inverse = v8_set((float)(root / lift));
    for (size_t i = 0; i < a->n; i += 8) {
      v8 s = v8_get(x + 4 * i, a->n - i);
      if (before) s = v8_add(s, v8_get(before + 4 * i, a->n - i));
      s = v8_mul(v8_mul(v8_mul(s, lifted), inverse), v8_get(a->w + 4 * i, a->n - i));
      if (after) s = v8_add(s, v8_get(after + 4 * i, a->n - i));
      v8_put(y + 4 * i, s, a->n - i);
    }
  }
}
