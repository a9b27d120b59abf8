/* The vectors and functions that tile/panel_x86_template.h needs, with AVX2. A panel is eight rows, half of one in feed
 * order. vpmaddubsw multiplies unsigned 8-bit codes with signed activations and adds two products to 16 bits. */
#ifndef SKEEP_TILE_PANEL_AVX2_H
#define SKEEP_TILE_PANEL_AVX2_H

#include "tile/tile.h"

#define PANEL 8
#define PANELS 3 /* unpacked together: a section of theirs stays in the first-level cache */
#define PANELS_AT_ONCE 1
#define PANEL_SECTION_NAME(kind) skeep_panel_section_##kind##_avx2
#define PANEL_SECTIONS(DO)                                                    \
  DO(1, 0, 4, 0) DO(1, 0, 5, 0) DO(1, 0, 8, 0) DO(1, 1, 4, 0) DO(1, 1, 5, 0)  \
  DO(2, 0, 3, 4) DO(2, 0, 6, 32) DO(2, 1, 4, 0)
#define PANEL_SIGNED 1 /* there is panel_multiply_signed */
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

/* The dwords, halves and bytes of all rows, side by side at p. */
SKEEP_INLINE __m256i panel_load(const char *p) { return _mm256_loadu_si256((const __m256i *)p); }
SKEEP_INLINE __m256 panel_load_half(const char *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
SKEEP_INLINE __m256i panel_load_byte(const char *p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

SKEEP_INLINE __m256i panel_broadcast(const char *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

/* Dword i of out[k], for i = 0..7: bytes 4k..4k+3 of the 16 bytes at row[i] + offset. */
SKEEP_INLINE void rows_by_dword(const char *const *row, size_t offset, __m256i out[4]) {
#define PAIR(i)                                                                                        \
  _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row[i] + offset))), \
                          _mm_loadu_si128((const __m128i *)(row[(i) + 4] + offset)), 1)
  const __m256i a = PAIR(0), b = PAIR(1), c = PAIR(2), d = PAIR(3);
#undef PAIR
  const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
  const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
  out[0] = _mm256_unpacklo_epi64(ab0, cd0);
  out[1] = _mm256_unpackhi_epi64(ab0, cd0);
  out[2] = _mm256_unpacklo_epi64(ab1, cd1);
  out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

/* The halves at row[i] + offset, i = 0..7. */
SKEEP_INLINE __m256 rows_half(const char *const *row, size_t offset) {
  __m128i h = _mm_setzero_si128();
#define LOAD(i)                     \
  {                                 \
    uint16_t v;                     \
    memcpy(&v, row[i] + offset, 2); \
    h = _mm_insert_epi16(h, v, i);  \
  }
  LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5) LOAD(6) LOAD(7)
#undef LOAD
  return _mm256_cvtph_ps(h);
}

/* Adds a panel's row of outputs; the first `rows` of them exist. */
SKEEP_INLINE void panel_end(float *y, size_t rows, __m256 sum, int first) {
  if (rows >= PANEL) {
    _mm256_storeu_ps(y, first ? sum : _mm256_add_ps(_mm256_loadu_ps(y), sum));
  } else {
    float s[PANEL];
    _mm256_storeu_ps(s, sum);
    for (size_t i = 0; i < rows; i++) skeep_section_end((skeep_f32_any *)y + i, s[i], first);
  }
}

/* Up to so many tokens are multiplied as blocks of so many groups are unpacked. */
SKEEP_INLINE size_t panel_few_tokens(size_t groups) {
  (void)groups;
  return 2;
}

/* Holds a sum in its register here: compilers otherwise postpone the additions and spill the products. */
#define PIN(v) __asm__("" : "+x"(v))

/* The sum s of products of codes and activations: parts of it that begin with panel_begin, add panel_multiply's and end
 * with panel_close. Codes of more than six bits are multiplied as two planes of nibbles. Parts are 16-bit sums of so
 * many products that nothing saturates: 15 * 127 * 16, 31 * 127 * 8 and 63 * 127 * 4 are below 32768. */
SKEEP_INLINE int panel_planes(int bits) { return bits <= 6 ? 1 : 2; }
SKEEP_INLINE __m256i panel_plane(__m256i codes, int bits, int plane) {
  if (bits <= 6) return codes;
  return _mm256_and_si256(plane ? _mm256_srli_epi16(codes, 4) : codes, _mm256_set1_epi8(15));
}
SKEEP_INLINE int panel_run(int bits) { return bits <= 4 || bits > 6 ? 8 : bits == 5 ? 4 : 2; }
SKEEP_INLINE __m256i panel_begin(__m256i sum) {
  (void)sum;
  return _mm256_setzero_si256();
}
SKEEP_INLINE __m256i panel_multiply(__m256i part, __m256i codes, __m256i a) {
  part = _mm256_add_epi16(part, _mm256_maddubs_epi16(codes, a));
  PIN(part);
  return part;
}
SKEEP_INLINE __m256i panel_close(__m256i sum, __m256i part, int plane) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(plane ? 16 : 1)));
}

/* Codes as signed bytes: their magnitudes times activations that take their signs. 2 * 128 * 127 fits into 16 bits. */
SKEEP_INLINE __m256i panel_multiply_signed(__m256i sum, __m256i codes, __m256i a) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(a, codes));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "tile/panel_x86_template.h"

/* The product of an encoding with A8, through its panel.h: as stored, and in feed order. */
#define PANEL_PRODUCT(form)                                                    \
  void skeep_matmul_t_##form##_a8_avx2(const struct skeep_matmul_tile *tile) { \
    panel_product(tile, form##_open, form##_read, form##_panel, 0);            \
  }
#define PANEL_PRODUCT_FEED(NAME, form)                                              \
  void skeep_matmul_t_##form##_a8_feed_avx2(const struct skeep_matmul_tile *tile) { \
    panel_product(tile, form##_open, form##_read, form##_panel, 1);                 \
  }

#endif
