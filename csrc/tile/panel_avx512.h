/* The vectors and functions that tile/panel_x86_template.h needs, with AVX-512 with VNNI. */
#ifndef SKEEP_TILE_PANEL_AVX512_H
#define SKEEP_TILE_PANEL_AVX512_H

#include "tile/integer_avx512.h"

#define PANELS_AT_ONCE PANELS
typedef __m512i panel_int;
typedef __m512 panel_float;

SKEEP_INLINE __m512 panel_fma(__m512 a, __m512 b, __m512 sum) { return _mm512_fmadd_ps(a, b, sum); }
SKEEP_INLINE __m512i panel_pairs(__m512i a, __m512i b) { return _mm512_madd_epi16(a, b); }
SKEEP_INLINE __m512i panel_shuffle(__m512i v, __m512i index) { return _mm512_shuffle_epi8(v, index); }

/* Sixteen bytes for panel_shuffle. */
SKEEP_INLINE __m512i panel_table(const int8_t *p) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}

/* The low halves of the dwords. */
SKEEP_INLINE __m512 panel_half(__m512i v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }

/* Products are added in 32 bits, whatever the codes. */
SKEEP_INLINE int panel_planes(int bits) {
  (void)bits;
  return 1;
}
SKEEP_INLINE __m512i panel_plane(__m512i codes, int bits, int plane) {
  (void)bits, (void)plane;
  return codes;
}
SKEEP_INLINE int panel_run(int bits) {
  (void)bits;
  return 8;
}
SKEEP_INLINE __m512i panel_multiply(__m512i sum, __m512i codes, __m512i a) {
  return _mm512_dpbusd_epi32(sum, codes, a);
}
SKEEP_INLINE __m512i panel_close(__m512i sum, __m512i part, int plane) {
  (void)plane;
  return _mm512_add_epi32(sum, part);
}

SKEEP_INLINE void panel_prefetch(const struct skeep_matmul_tile *tile, const char *const *row, size_t row_bytes,
                                 size_t rows, size_t at, size_t step, size_t bytes) {
  rows_prefetch(tile, row, row_bytes, rows, at, step, bytes);
}

#include "tile/panel_x86_template.h"

/* The product of a form with A8, through its panel.h. */
#define PANEL_PRODUCT(form)                                                       \
  void skeep_matmul_t_##form##_a8_avx512(const struct skeep_matmul_tile *tile) {    \
    panel_product(tile, form##_open, form##_read, form##_panel);                  \
  }

#endif
