/* The vectors and functions that tile/panel_x86_template.h needs, with AVX-512 with VNNI. A panel is sixteen rows.
 * vpdpbusd multiplies unsigned 8-bit codes with signed activations and adds four products to 32 bits without
 * saturation, so one plane of codes serves all encodings. */
#ifndef SKEEP_TILE_PANEL_AVX512_H
#define SKEEP_TILE_PANEL_AVX512_H

#include "tile/tile.h"

#define PANEL 16
#define PANELS 3 /* multiplied together, with up to four tokens: twelve integer sums and twelve float sums */
#define PANELS_AT_ONCE PANELS
#define PANEL_SECTION_NAME(kind) skeep_panel_section_##kind##_avx512
#define PANEL_SECTIONS(DO) DO(1, 0, 4, 0) DO(1, 1, 4, 0) DO(2, 0, 3, 4) DO(2, 0, 6, 32) DO(2, 1, 4, 0)
#define PANEL_SIGNED 0
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

/* The dwords, halves and bytes of all rows, side by side at p. */
SKEEP_INLINE __m512i panel_load(const char *p) { return _mm512_loadu_si512(p); }
SKEEP_INLINE __m512 panel_load_half(const char *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
SKEEP_INLINE __m512i panel_load_byte(const char *p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

SKEEP_INLINE __m512i panel_broadcast(const char *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

/* Dword i of out[k]: bytes 4k..4k+3 of the 16 bytes at row[i] + offset. */
SKEEP_INLINE void rows_by_dword(const char *const *row, size_t offset, __m512i out[4]) {
  __m512i v[4];
  for (int i = 0; i < 4; i++) {
    v[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(row[i] + offset)));
    v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const __m128i *)(row[i + 4] + offset)), 1);
    v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const __m128i *)(row[i + 8] + offset)), 2);
    v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const __m128i *)(row[i + 12] + offset)), 3);
  }
  const __m512i ab0 = _mm512_unpacklo_epi32(v[0], v[1]), ab1 = _mm512_unpackhi_epi32(v[0], v[1]);
  const __m512i cd0 = _mm512_unpacklo_epi32(v[2], v[3]), cd1 = _mm512_unpackhi_epi32(v[2], v[3]);
  out[0] = _mm512_unpacklo_epi64(ab0, cd0);
  out[1] = _mm512_unpackhi_epi64(ab0, cd0);
  out[2] = _mm512_unpacklo_epi64(ab1, cd1);
  out[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

/* The halves at row[i] + offset. */
SKEEP_INLINE __m512 rows_half(const char *const *row, size_t offset) {
  __m128i low = _mm_setzero_si128(), high = low;
#define LOAD(i)                           \
  {                                       \
    uint16_t v;                           \
    memcpy(&v, row[i] + offset, 2);       \
    low = _mm_insert_epi16(low, v, i);    \
    memcpy(&v, row[(i) + 8] + offset, 2); \
    high = _mm_insert_epi16(high, v, i);  \
  }
  LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5) LOAD(6) LOAD(7)
#undef LOAD
  return _mm512_cvtph_ps(_mm256_set_m128i(high, low));
}

/* Adds a panel's row of outputs; the first `rows` of them exist. */
SKEEP_INLINE void panel_end(float *y, size_t rows, __m512 sum, int first) {
  const __mmask16 some = (__mmask16)((1u << skeep_min(rows, PANEL)) - 1);
  if (!first) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(some, y), sum);
  _mm512_mask_storeu_ps(y, some, sum);
}

/* Up to so many tokens are multiplied as blocks of so many groups are unpacked. More sums than four would be spilled
 * where a block is a long function. */
SKEEP_INLINE size_t panel_few_tokens(size_t groups) { return groups > 1 ? 4 : 8; }

/* The sum s of products of codes and activations: parts of it that begin with panel_begin, add panel_multiply's and end
 * with panel_close. Here the parts are the sum. */
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
SKEEP_INLINE __m512i panel_begin(__m512i sum) { return sum; }
SKEEP_INLINE __m512i panel_multiply(__m512i part, __m512i codes, __m512i a) {
  return _mm512_dpbusd_epi32(part, codes, a);
}
SKEEP_INLINE __m512i panel_close(__m512i sum, __m512i part, int plane) {
  (void)sum, (void)plane;
  return part;
}

#include "tile/panel_x86_template.h"

/* The product of an encoding with A8, through its panel.h: as stored, and in feed order. */
#define PANEL_PRODUCT(form)                                                      \
  void skeep_matmul_t_##form##_a8_avx512(const struct skeep_matmul_tile *tile) { \
    panel_product(tile, form##_open, form##_read, form##_panel, 0);              \
  }
#define PANEL_PRODUCT_FEED(NAME, form)                                                \
  void skeep_matmul_t_##form##_a8_feed_avx512(const struct skeep_matmul_tile *tile) { \
    panel_product(tile, form##_open, form##_read, form##_panel, 1);                   \
  }

#endif
