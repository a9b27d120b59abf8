/* The integer product of Q4_0 and Q8_0 for AVX-512 with VNNI.
 *
 * As in integer_avx2.h, the unpacker of an encoding converts a section of a panel to cells of 32 elements; here a panel
 * is sixteen rows, and 64 bytes have four consecutive elements of each. vpdpbusd multiplies unsigned 8-bit codes with
 * signed activations and adds four products to 32 bits without saturation, so one plane of 8-bit codes serves all
 * encodings. The zero point is subtracted exactly, as an integer, by means of the sums of activation codes. */
#ifndef SKEEP_TILE_INTEGER_AVX512_H
#define SKEEP_TILE_INTEGER_AVX512_H

#include "tile/tile.h"

/* Encodings whose blocks are one group and begin with a half: the row's scale. */
struct integer_form {
  int zero;     /* the code that means 0 */
  size_t bytes; /* of a block */
};

/* Dword i of q[k], for sixteen rows i: their codes 4k..4k+3 of the block at row[i] + at. */
typedef void integer_codes(const char *const *row, size_t at, __m512i q[8]);

struct cell {
  float scale[16];
  uint8_t code[8][64];
};
#define PANEL 16
#define PANELS 3 /* multiplied together, with up to four tokens: twelve integer sums and twelve float sums */

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

SKEEP_INLINE __m512i broadcast4(const char *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}
SKEEP_INLINE __m512 broadcast_f32(const char *p) {
  float v;
  memcpy(&v, p, 4);
  return _mm512_set1_ps(v);
}

/* row[i] = row o + i of the weights, `at` bytes in. Rows past the last one repeat it and are not stored. */
SKEEP_INLINE void panel_rows(const struct skeep_matmul_tile *tile, size_t o, size_t at, const char **row) {
  for (size_t i = 0; i < PANEL; i++)
    row[i] = tile->w + (int64_t)skeep_min(o + i, tile->rows - 1) * tile->w_stride + at;
}

/* Prefetches `bytes` bytes of each row that lie `step` behind the reader, who is `at` bytes into rows of row_bytes;
 * behind the end of a row, those of the row `rows` further. Any address may be prefetched. */
SKEEP_INLINE void rows_prefetch(const struct skeep_matmul_tile *tile, const char *const *row, size_t row_bytes,
                                size_t rows, size_t at, size_t step, size_t bytes) {
  const int64_t ahead = at + step < row_bytes ? (int64_t)step
                                              : (int64_t)rows * tile->w_stride + (int64_t)step - (int64_t)row_bytes;
  for (size_t i = 0; i < PANEL; i++)
    for (size_t b = 0; b < bytes; b += 64) _mm_prefetch(row[i] + (int64_t)at + ahead + (int64_t)b, _MM_HINT_T0);
}

/* A panel's row of outputs; the first `rows` of them exist. */
SKEEP_INLINE void panel_end(float *y, size_t rows, __m512 sum, int first) {
  const __mmask16 some = (__mmask16)((1u << skeep_min(rows, PANEL)) - 1);
  if (!first) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(some, y), sum);
  _mm512_mask_storeu_ps(y, some, sum);
}

/* zero times the sums of two halves of a group, to begin the sum of its products with. */
SKEEP_INLINE __m512i group_begin(const char *block, size_t k, const struct integer_form form) {
  return _mm512_dpwssd_epi32(_mm512_setzero_si512(), _mm512_set1_epi16((short)-form.zero),
                             broadcast4(block + offsetof(skeep_block_a8, sums) + 4 * k));
}

/* A section of some panels, against some tokens; both counts are constants where it is inlined. */
struct section {
  const struct cell *cells; /* a panel's follow each other, panels are SKEEP_SECTION / 32 cells apart */
  const char *x;            /* at the section's first block */
  int64_t x_stride;
  float *y;
  int64_t y_stride;
  size_t rows, groups;
  int first;
};
SKEEP_INLINE void integer_section(const struct section *s, const int panels, const int tokens,
                                  const struct integer_form form) {
  const int64_t x_stride = s->x_stride;
  __m512 sum[PANELS][4];
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++) sum[p][t] = _mm512_setzero_ps();
  for (size_t g = 0; g < s->groups; g++) {
    const char *block = s->x + g / 4 * SKEEP_BYTES_a8;
    const struct cell *cell = s->cells + g;
    const size_t k = g % 4;
    __m512i acc[PANELS][4];
    for (int t = 0; t < tokens; t++) {
      const __m512i begin = group_begin(block + t * x_stride, k, form);
      for (int p = 0; p < panels; p++) acc[p][t] = begin;
    }
    for (int i = 0; i < 8; i++) {
      __m512i w[PANELS];
      for (int p = 0; p < panels; p++) w[p] = _mm512_load_si512(cell[p * (SKEEP_SECTION / 32)].code[i]);
      for (int t = 0; t < tokens; t++) {
        const __m512i a = broadcast4(block + t * x_stride + offsetof(skeep_block_a8, qs) + 32 * k + 4 * i);
        for (int p = 0; p < panels; p++) acc[p][t] = _mm512_dpbusd_epi32(acc[p][t], w[p], a);
      }
    }
    for (int p = 0; p < panels; p++) {
      const __m512 scale = _mm512_load_ps(cell[p * (SKEEP_SECTION / 32)].scale);
      for (int t = 0; t < tokens; t++) {
        const __m512 d = _mm512_mul_ps(scale, broadcast_f32(block + t * x_stride + 4 * k));
        sum[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[p][t]), d, sum[p][t]);
      }
    }
  }
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++)
      panel_end(s->y + t * s->y_stride + p * PANEL, s->rows - (size_t)p * PANEL, sum[p][t], s->first);
}

/* One token: rows are read side by side and multiplied as they are unpacked; the same sums in the same order. */
SKEEP_INLINE void integer_one(const struct skeep_matmul_tile *tile, integer_codes *codes,
                              const struct integer_form form) {
  const size_t row_bytes = tile->n / 32 * form.bytes;
  for (size_t o = 0; o < tile->rows; o += PANEL) {
    const char *row[PANEL], *x = tile->x;
    panel_rows(tile, o, 0, row);
    size_t at = 0;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      __m512 sum = _mm512_setzero_ps();
      for (size_t g = 0; g < groups; g++, at += form.bytes) {
        if (g % 4 == 0) rows_prefetch(tile, row, row_bytes, PANEL, at, 512, 4 * form.bytes);
        const char *b = x + g / 4 * SKEEP_BYTES_a8;
        __m512i q[8], s = group_begin(b, g % 4, form);
        codes(row, at, q);
        for (size_t i = 0; i < 8; i++)
          s = _mm512_dpbusd_epi32(s, q[i], broadcast4(b + offsetof(skeep_block_a8, qs) + g % 4 * 32 + 4 * i));
        const __m512 d = _mm512_mul_ps(rows_half(row, at), broadcast_f32(b + 4 * (g % 4)));
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s), d, sum);
      }
      panel_end(tile->y + o, tile->rows - o, sum, k == 0);
      x += SKEEP_SECTION / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8;
    }
  }
}

/* Many tokens: panels of rows, unpacked a section at a time, against as many tokens at once as registers hold. */
SKEEP_INLINE void integer_many(const struct skeep_matmul_tile *tile, integer_codes *codes,
                               const struct integer_form form) {
  const size_t row_bytes = tile->n / 32 * form.bytes, section = SKEEP_SECTION / 32 * form.bytes;
  struct cell *cells = tile->scratch;
  for (size_t o = 0; o < tile->rows; o += PANEL * PANELS) {
    const size_t panels = (skeep_min(PANEL * PANELS, tile->rows - o) + PANEL - 1) / PANEL;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32, at = k / 32 * form.bytes;
      for (size_t p = 0; p < panels; p++) {
        const char *row[PANEL];
        panel_rows(tile, o + p * PANEL, 0, row);
        rows_prefetch(tile, row, row_bytes, PANEL * PANELS, at, section, section);
        for (size_t g = 0; g < groups; g++) {
          struct cell *cell = cells + p * (SKEEP_SECTION / 32) + g;
          __m512i q[8];
          codes(row, at + g * form.bytes, q);
          _mm512_store_ps(cell->scale, rows_half(row, at + g * form.bytes));
          for (int i = 0; i < 8; i++) _mm512_store_si512(cell->code[i], q[i]);
        }
      }
      size_t parts = (tile->tokens + 3) / 4;
      for (size_t t = 0, tokens; t < tile->tokens; t += tokens, parts--) {
        tokens = (tile->tokens - t + parts - 1) / parts; /* nine tokens are three times three */
        const size_t step = panels == PANELS ? PANELS : 1;
        for (size_t p = 0; p < panels; p += step) {
          const struct section s = {cells + p * (SKEEP_SECTION / 32),
                                    tile->x + (int64_t)t * tile->x_stride + k / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8,
                                    tile->x_stride,
                                    tile->y + (int64_t)t * tile->y_stride + o + p * PANEL,
                                    tile->y_stride,
                                    tile->rows - o - p * PANEL,
                                    groups,
                                    k == 0};
          switch (4 * (step == PANELS) + tokens) {
            case 1: integer_section(&s, 1, 1, form); break;
            case 2: integer_section(&s, 1, 2, form); break;
            case 3: integer_section(&s, 1, 3, form); break;
            case 4: integer_section(&s, 1, 4, form); break;
            case 5: integer_section(&s, PANELS, 1, form); break;
            case 6: integer_section(&s, PANELS, 2, form); break;
            case 7: integer_section(&s, PANELS, 3, form); break;
            default: integer_section(&s, PANELS, 4, form); break;
          }
        }
      }
    }
  }
}

SKEEP_INLINE void integer_product(const struct skeep_matmul_tile *tile, integer_codes *codes,
                                  const struct integer_form form) {
  if (tile->tokens == 1) {
    integer_one(tile, codes, form);
  } else {
    integer_many(tile, codes, form);
  }
}

#endif
