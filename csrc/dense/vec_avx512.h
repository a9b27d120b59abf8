/* The eight lanes of vec_avx2.h, and the wide vectors of attend_template.h: twice eight lanes in one register. */
#include "dense/vec_avx2.h"
#undef DENSE
#define DENSE(name) skeep_##name##_avx512

#define WIDE 2
#define WIDE_VECTORS 4
typedef __m512 vw;

static inline vw vw_set(float x) { return _mm512_set1_ps(x); }
static inline vw vw_load(const void *p) { return _mm512_loadu_ps(p); }
static inline void vw_store(void *p, vw x) { _mm512_storeu_ps(p, x); }
static inline vw vw_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
static inline vw vw_load_bf16(const void *p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
static inline vw vw_repeat(v8 x) { return _mm512_broadcast_f32x8(x); }
static inline vw vw_fma(vw a, vw b, vw c) { return _mm512_fmadd_ps(a, b, c); }
/* As _mm256_hadd_ps, in each quarter. */
static inline vw vw_add_pairs(vw a, vw b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
static inline void vw_sum4(vw a, vw b, vw c, vw d, float *to, size_t stride) {
  const vw x = vw_add_pairs(vw_add_pairs(a, b), vw_add_pairs(c, d));
  const vw y = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0xb1)); /* quarters with their neighbours */
  _mm_storeu_ps(to, _mm512_castps512_ps128(y));
  _mm_storeu_ps(to + stride, _mm512_extractf32x4_ps(y, 2));
}
