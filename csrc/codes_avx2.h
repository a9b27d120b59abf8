/* The last step of AVX2 decoders: converts sixteen signed codes to floats. */
#ifndef SKEEP_CODES_AVX2_H
#define SKEEP_CODES_AVX2_H

#include "blocks.h"

/* y[0..16) = d * code. */
static inline void skeep_codes16_avx2(__m128i codes, __m256 d, float *y) {
  _mm256_storeu_ps(y, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), d));
  _mm256_storeu_ps(y + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8))), d));
}
/* y[0..16) = d * code - m, rounded after the product as well. */
static inline void skeep_codes16_min_avx2(__m128i codes, __m256 d, __m256 m, float *y) {
  const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
  const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)));
  _mm256_storeu_ps(y, _mm256_sub_ps(_mm256_mul_ps(low, d), m));
  _mm256_storeu_ps(y + 8, _mm256_sub_ps(_mm256_mul_ps(high, d), m));
}
static inline __m128i skeep_load16(const void *p) { return _mm_loadu_si128(p); }

#endif
