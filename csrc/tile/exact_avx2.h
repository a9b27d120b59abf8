/* The vectors and functions that tile/exact_x86_template.h needs, with AVX2. */
#ifndef SKEEP_TILE_EXACT_AVX2_H
#define SKEEP_TILE_EXACT_AVX2_H

#include "tile/tile.h"

#define EXACT_LANES 8
#define EXACT_TOKENS 3
typedef __m256 exact_vec;

SKEEP_INLINE __m256 exact_zero(void) { return _mm256_setzero_ps(); }
SKEEP_INLINE __m256 exact_fma(__m256 a, __m256 b, __m256 sum) { return _mm256_fmadd_ps(a, b, sum); }

SKEEP_INLINE __m256 exact_f32(const char *p, size_t count) {
  if (count == EXACT_LANES) return _mm256_loadu_ps((const float *)p);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps((const float *)p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane));
}

/* Eight 16-bit elements, or the first `count` and zeros. */
SKEEP_INLINE __m128i exact_16(const char *p, size_t count) {
  if (count == EXACT_LANES) return _mm_loadu_si128((const __m128i *)p);
  uint16_t v[EXACT_LANES] = {0};
  memcpy(v, p, 2 * count);
  return _mm_loadu_si128((const __m128i *)v);
}

SKEEP_INLINE __m128 exact_sum4(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 h = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

#include "tile/exact_x86_template.h"

/* The product of an encoding with F32, through a decoder of it: as stored, and in feed order. */
#define DECODED_PRODUCT(form, decoder)                                             \
  void skeep_matmul_t_##form##_f32_avx2(const struct skeep_matmul_tile *tile) {     \
    exact_decoded(tile, NULL, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, decoder); \
  }
#define DECODED_PRODUCT_FEED(NAME, form, decoder)                                                           \
  void skeep_matmul_t_##form##_f32_feed_avx2(const struct skeep_matmul_tile *tile) {                         \
    exact_decoded(tile, skeep_feed_runs(SKEEP_ENC_##NAME), SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, decoder); \
  }

#endif
