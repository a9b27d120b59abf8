/* Elementary functions over eight lanes, for the kernels in this directory. The polynomials are minimax fits
 * (Remez, 40 digits) of the quotient that each comment names, rounded to float; errors are those of the fit. */
#ifndef DENSE
#error "parameters: the vectors v8 and d8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif

/* exp(r) for |r| <= ln(2)/2: 1 + (r + r^2 * g(r)), g of degree 4 fits (exp(r) - 1 - r) / r^2 to 3e-9 of exp(r). */
static inline v8 v8_exp_reduced(v8 r) {
  v8 g = v8_fma(r, v8_set(0x1.6a23d6p-10f), v8_set(0x1.123a20p-7f));
  g = v8_fma(r, g, v8_set(0x1.5558f2p-5f));
  g = v8_fma(r, g, v8_set(0x1.555492p-3f));
  g = v8_fma(r, g, v8_set(0x1.fffffcp-2f));
  return v8_add(v8_set(1), v8_fma(v8_mul(r, r), g, r));
}
/* exp(x) = result * 2^n, result in [0.7, 1.42], for |x| <= 350. ln(2) is split so that n times its upper part (15
 * bits) is exact. */
static inline v8 v8_exp_parts(v8 x, v8 *n) {
  *n = v8_round(v8_mul(x, v8_set(0x1.715476p+0f)));
  const v8 r = v8_fma(*n, v8_set(-0x1.62e4p-1f), x);
  return v8_exp_reduced(v8_fma(*n, v8_set(-0x1.7f7d1cp-20f), r));
}
/* The same for a double x, whose rounding to float would cost |x| * 2^-24 of the result. */
static inline v8 d8_exp_parts(d8 x, v8 *n) {
  const d8 k = d8_round(d8_mul(x, d8_set(0x1.71547652b82fep+0)));
  *n = d8_narrow(k);
  return v8_exp_reduced(d8_narrow(d8_fma(k, d8_set(-0x1.62e42fefa39efp-1), x)));
}
/* exp(x) within 2 ulp, for every x: +inf above 88.7, subnormal results rounded once, 0 below -104; NaN stays. The
 * scale is applied in two steps because 2^n alone leaves the range of normal floats. */
static inline v8 v8_exp(v8 x) {
  v8 n;
  const v8 m = v8_exp_parts(v8_min(v8_set(89), v8_max(v8_set(-105), x)), &n);
  const v8 half = v8_round(v8_mul(n, v8_set(0.5f)));
  return v8_mul(v8_mul(m, v8_power_of_2(half)), v8_power_of_2(v8_sub(n, half)));
}
/* tanh(x): below 0.625 x + x^3 * P(x^2), P of degree 4 fits (tanh(x)/x - 1) / x^2 to 5e-9; above it, where nothing
 * cancels, 1 - 2 / (exp(2|x|) + 1). */
static inline v8 v8_tanh(v8 x) {
  const v8 a = v8_abs(x), u = v8_mul(x, x);
  v8 p = v8_fma(u, v8_set(-0x1.766cc8p-8f), v8_set(0x1.524952p-6f));
  p = v8_fma(u, p, v8_set(-0x1.b84252p-5f));
  p = v8_fma(u, p, v8_set(0x1.11075ap-3f));
  p = v8_fma(u, p, v8_set(-0x1.555534p-2f));
  const v8 small = v8_fma(v8_mul(a, u), p, a);
  const v8 large = v8_sub(v8_set(1), v8_div(v8_set(2), v8_add(v8_exp(v8_add(a, a)), v8_set(1))));
  return v8_copysign(v8_if_less(a, v8_set(0.625f), small, large), x);
}
/* exp(a^2/2) * erfc(a/sqrt(2)) / 2 for 0 <= a <= 20: u * Q(u) with u = 1/(1 + a/4), Q of degree 9, to 2e-8. In
 * double: near a = 0 an error of u counts three times. */
static inline v8 d8_normal_tail(d8 a) {
  static const double q[] = {0.018983763753, -0.075983713229, 0.083013604485, -0.01387575323, 0.04833763784,
                             0.067285461016, 0.078787256556, 0.094040564489, 0.099672687427, 0.099738497287};
  const d8 u = d8_div(d8_set(1), d8_fma(a, d8_set(0.25), d8_set(1)));
  d8 y = d8_set(q[0]);
  for (int i = 1; i < 10; i++) y = d8_fma(u, y, d8_set(q[i]));
  return d8_narrow(d8_mul(u, y));
}
/* cos and sin of angles given in double, |angle| < 2^31, within 2e-7 up to 2^20. The quarter turn is split as 33 +
 * 53 bits, so that its product with a count below 2^20 is exact; the reduced angle then fits a float. */
static inline void d8_cos_sin(d8 angle, v8 *cosine, v8 *sine) {
  const d8 k = d8_round(d8_mul(angle, d8_set(0x1.45f306dc9c883p-1)));
  const d8 r = d8_fma(k, d8_set(-0x1.921fb544p+0), angle);
  const v8 x = d8_narrow(d8_fma(k, d8_set(-0x1.0b4611a626331p-34), r)), u = v8_mul(x, x);
  const v8 quarter = d8_narrow(d8_fma(d8_round(d8_mul(k, d8_set(0.25))), d8_set(-4), k)); /* -2 .. 2 */
  v8 s = v8_fma(u, v8_set(-0x1.994e02p-13f), v8_set(0x1.11075ep-7f)); /* (sin(x)/x - 1) / x^2 */
  s = v8_fma(v8_mul(x, u), v8_fma(u, s, v8_set(-0x1.555546p-3f)), x);
  v8 c = v8_fma(u, v8_set(0x1.9a01bcp-16f), v8_set(-0x1.6c0c8ap-10f)); /* (cos(x) - 1 + x^2/2) / x^4 */
  c = v8_fma(v8_mul(u, u), v8_fma(u, c, v8_set(0x1.55554ap-5f)), v8_fma(u, v8_set(-0.5f), v8_set(1)));
  /* Odd quarters exchange the two; then the signs of the quadrant. */
  const v8 turns = v8_abs(quarter), one = v8_set(1), minus = v8_set(-1), half = v8_set(0.5f), more = v8_set(1.5f);
  const v8 odd_s = v8_if_less(turns, more, c, s), odd_c = v8_if_less(turns, more, s, c);
  const v8 sin_sign = v8_if_less(quarter, v8_set(-0.5f), minus, v8_if_less(more, quarter, minus, one));
  const v8 cos_sign = v8_if_less(half, quarter, minus, v8_if_less(quarter, v8_set(-1.5f), minus, one));
  *sine = v8_mul(sin_sign, v8_if_less(turns, half, s, odd_s));
  *cosine = v8_mul(cos_sign, v8_if_less(turns, half, c, odd_c));
}

/* The next elements of a row of which k are left: eight, or all k followed by 0. */
static inline v8 v8_get(const char *p, size_t k) { return k >= 8 ? v8_load(p) : v8_load_n(p, k); }
static inline void v8_put(char *p, v8 x, size_t k) {
  if (k >= 8)
    v8_store(p, x);
  else
    v8_store_n(p, x, k);
}
