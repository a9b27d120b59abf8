/* The vectors and functions that tile/panel_x86_template.h needs, with AVX2. */
#ifndef SKEEP_TILE_PANEL_AVX2_H
#define SKEEP_TILE_PANEL_AVX2_H

#include "tile/integer_avx2.h"

#define PANELS_AT_ONCE 1
typedef __m256i panel_int;
typedef __m256 panel_float;

SKEEP_INLINE __m256 panel_fma(__m256 a, __m256 b, __m256 sum) { return _mm256_fmadd_ps(a, b, sum); }
SKEEP_INLINE __m256i panel_pairs(__m256i a, __m256i b) { return _mm256_madd_epi16(a, b); }
SKEEP_INLINE __m256i panel_shuffle(__m256i v, __m256i index) { return _mm256_shuffle_epi8(v, index); }

/* Sixteen bytes for panel_shuffle. */
SKEEP_INLINE __m256i panel_table(const int8_t *p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

/* The low halves of the dwords. */
SKEEP_INLINE __m256 panel_half(__m256i v) {
  const __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 8);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* Codes of more than six bits are multiplied as two planes of nibbles. Products are added in 16 bits, for so many
 * dwords of codes that nothing saturates: 15 * 127 * 16, 31 * 127 * 8 and 63 * 127 * 4 are below 32768. */
SKEEP_INLINE int panel_planes(int bits) { return bits <= 6 ? 1 : 2; }
SKEEP_INLINE __m256i panel_plane(__m256i codes, int bits, int plane) {
  if (bits <= 6) return codes;
  return _mm256_and_si256(plane ? _mm256_srli_epi16(codes, 4) : codes, _mm256_set1_epi8(15));
}
SKEEP_INLINE int panel_run(int bits) { return bits <= 4 || bits > 6 ? 8 : bits == 5 ? 4 : 2; }
SKEEP_INLINE __m256i panel_multiply(__m256i sum, __m256i codes, __m256i a) {
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, a));
  PIN(sum);
  return sum;
}
SKEEP_INLINE __m256i panel_close(__m256i sum, __m256i part, int plane) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(plane ? 16 : 1)));
}

SKEEP_INLINE void panel_prefetch(const struct skeep_matmul_tile *tile, const char *const *row, size_t row_bytes,
                                 size_t rows, size_t at, size_t step, size_t bytes) {
  rows_prefetch(row, (int64_t)at + rows_ahead(tile, row_bytes, rows, at, step), bytes);
}

#include "tile/panel_x86_template.h"

/* The product of a form with A8, through its panel.h. */
#define PANEL_PRODUCT(form)                                                       \
  void skeep_matmul_t_##form##_a8_avx2(const struct skeep_matmul_tile *tile) {    \
    panel_product(tile, form##_open, form##_read, form##_panel);                  \
  }

#endif
