/* The vectors and functions that tile/exact_x86_template.h needs, with AVX-512. */
#ifndef SKEEP_TILE_EXACT_AVX512_H
#define SKEEP_TILE_EXACT_AVX512_H

#include "tile/tile.h"

#define EXACT_LANES 16
#define EXACT_TOKENS 6
typedef __m512 exact_vec;

SKEEP_INLINE __m512 exact_zero(void) { return _mm512_setzero_ps(); }
SKEEP_INLINE __m512 exact_fma(__m512 a, __m512 b, __m512 sum) { return _mm512_fmadd_ps(a, b, sum); }

SKEEP_INLINE __m512 exact_f32(const char *p, size_t count) {
  if (count == EXACT_LANES) return _mm512_loadu_ps(p);
  return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
}

/* Sixteen 16-bit elements, or the first `count` and zeros. */
SKEEP_INLINE __m256i exact_16(const char *p, size_t count) {
  if (count == EXACT_LANES) return _mm256_loadu_si256((const __m256i *)p);
  return _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), p);
}

SKEEP_INLINE __m256 exact_halves(__m512 a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
}
SKEEP_INLINE __m128 exact_sum4(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m256 h = _mm256_hadd_ps(_mm256_hadd_ps(exact_halves(a), exact_halves(b)),
                                  _mm256_hadd_ps(exact_halves(c), exact_halves(d)));
  return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

#include "tile/exact_x86_template.h"

/* The product of an encoding with F32, through a decoder of it: as stored, and in feed order. */
#define DECODED_PRODUCT(form, decoder)                                             \
  void skeep_matmul_t_##form##_f32_avx512(const struct skeep_matmul_tile *tile) {     \
    exact_decoded(tile, NULL, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, decoder); \
  }
#define DECODED_PRODUCT_FEED(NAME, form, decoder)                                                           \
  void skeep_matmul_t_##form##_f32_feed_avx512(const struct skeep_matmul_tile *tile) {                         \
    exact_decoded(tile, skeep_feed_runs(SKEEP_ENC_##NAME), SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, decoder); \
  }

#endif
