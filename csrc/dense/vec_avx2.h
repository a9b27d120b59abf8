/* The eight lanes of vec_portable.h in one AVX2 register (doubles in two). */
#define DENSE(name) skeep_##name##_avx2

typedef __m256 v8;
typedef struct d8 {
  __m256d a, b;
} d8;

static inline v8 v8_set(float x) { return _mm256_set1_ps(x); }
static inline v8 v8_lanes(void) { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
static inline v8 v8_load(const void *p) { return _mm256_loadu_ps(p); }
static inline void v8_store(void *p, v8 x) { _mm256_storeu_ps(p, x); }
static inline __m256i v8_first(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline v8 v8_load_n(const void *p, size_t n) { return _mm256_maskload_ps(p, v8_first(n)); }
static inline void v8_store_n(void *p, v8 x, size_t n) { _mm256_maskstore_ps(p, v8_first(n), x); }
static inline v8 v8_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
static inline v8 v8_load_bf16(const void *p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
static inline void v8_store_f16(void *p, v8 x) {
  _mm_storeu_si128(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void v8_store_bf16(void *p, v8 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000)); /* rounding could make a NaN infinite */
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  const __m256i packed = _mm256_packus_epi32(high, high); /* within 128-bit halves */
  _mm_storeu_si128(p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}
static inline v8 v8_add(v8 a, v8 b) { return _mm256_add_ps(a, b); }
static inline v8 v8_sub(v8 a, v8 b) { return _mm256_sub_ps(a, b); }
static inline v8 v8_mul(v8 a, v8 b) { return _mm256_mul_ps(a, b); }
static inline v8 v8_div(v8 a, v8 b) { return _mm256_div_ps(a, b); }
static inline v8 v8_fma(v8 a, v8 b, v8 c) { return _mm256_fmadd_ps(a, b, c); }
static inline v8 v8_max(v8 a, v8 b) { return _mm256_max_ps(a, b); }
static inline v8 v8_min(v8 a, v8 b) { return _mm256_min_ps(a, b); }
static inline v8 v8_abs(v8 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
static inline v8 v8_copysign(v8 x, v8 sign) {
  return _mm256_or_ps(v8_abs(x), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
static inline v8 v8_if_less(v8 a, v8 b, v8 x, v8 y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline v8 v8_round(v8 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline v8 v8_power_of_2(v8 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
static inline v8 v8_swap_pairs(v8 x) { return _mm256_permute_ps(x, 0xb1); }
static inline v8 v8_double_low(v8 x) {
  return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
static inline float v8_sum(v8 x) {
  x = _mm256_hadd_ps(x, x);
  x = _mm256_hadd_ps(x, x);
  return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)));
}
static inline void v8_sum4(v8 a, v8 b, v8 c, v8 d, float *to) {
  const v8 x = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)));
}
static inline float v8_largest(v8 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static inline d8 d8_set(double x) { return (d8){_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
static inline d8 d8_load(const void *p) {
  return (d8){_mm256_loadu_pd(p), _mm256_loadu_pd((const double *)p + 4)};
}
static inline d8 d8_widen(v8 x) {
  return (d8){_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}
static inline v8 d8_narrow(d8 x) { return _mm256_set_m128(_mm256_cvtpd_ps(x.b), _mm256_cvtpd_ps(x.a)); }
static inline d8 d8_add(d8 x, d8 y) { return (d8){_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b)}; }
static inline d8 d8_mul(d8 x, d8 y) { return (d8){_mm256_mul_pd(x.a, y.a), _mm256_mul_pd(x.b, y.b)}; }
static inline d8 d8_div(d8 x, d8 y) { return (d8){_mm256_div_pd(x.a, y.a), _mm256_div_pd(x.b, y.b)}; }
static inline d8 d8_fma(d8 x, d8 y, d8 z) {
  return (d8){_mm256_fmadd_pd(x.a, y.a, z.a), _mm256_fmadd_pd(x.b, y.b, z.b)};
}
static inline d8 d8_round(d8 x) {
  return (d8){_mm256_round_pd(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
              _mm256_round_pd(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline double d8_sum(d8 x) {
  double t[4];
  _mm256_storeu_pd(t, _mm256_add_pd(x.a, x.b));
  return (t[0] + t[1]) + (t[2] + t[3]);
}
