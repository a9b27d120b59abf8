/* The integer product of Q4_0 and Q8_0 for AVX2.
 *
 * A panel is eight rows. The unpacker of an encoding converts a section of a panel to cells, one for each group of 32
 * elements: unsigned codes of at most four bits in one plane, or the low and high nibbles of 8-bit codes in two planes.
 * 32 bytes of a plane have four consecutive elements of each of the eight rows, so that every 32-bit lane belongs to
 * one row and sums never cross lanes. vpmaddubsw multiplies them with four activation codes, which are the same in all
 * lanes.
 *
 * Nothing saturates: a 16-bit lane adds 16 products of a group, at most 16 * 15 * 127 = 30480. Weights are the unsigned
 * operand; activations, in [-127, 127], are the signed one. The zero point of the codes is subtracted exactly, as an
 * integer, by means of the sums of activation codes. */
#ifndef SKEEP_TILE_INTEGER_AVX2_H
#define SKEEP_TILE_INTEGER_AVX2_H

#include "tile/tile.h"

/* What a cell holds: its scales, then its planes. */
struct integer_form {
  int planes;   /* 1: codes up to 15; 2: low nibbles, then high nibbles */
  int zero;     /* the code that means 0 */
  size_t block; /* elements of a block of weights */
  size_t bytes; /* and its size */
};
#define CELL_BYTES(form) (32 + 256 * (size_t)(form).planes)
#define CELL_CODES 32
#define PANEL 8
#define PANELS 3 /* unpacked together: a section of theirs stays in the first-level cache */

/* Fills the cells of one section: groups of 32 elements of eight rows, row[r] at the section's first block. */
typedef void integer_unpack(const char *const *row, size_t groups, char *cells);

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

/* Lane i: the sum of the lanes of s[i]. */
SKEEP_INLINE __m256i rows_sum_i32(const __m256i s[8]) {
  const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
  const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(s[4], s[5]), _mm256_hadd_epi32(s[6], s[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
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

/* Holds a sum in its register here: compilers otherwise postpone the additions and spill the products. */
#define PIN(v) __asm__("" : "+x"(v))

SKEEP_INLINE __m256i broadcast4(const char *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}
SKEEP_INLINE float load_f32(const char *p) {
  float v;
  memcpy(&v, p, 4);
  return v;
}

/* The first `rows` floats of a panel's row of outputs. */
SKEEP_INLINE void panel_end(float *y, size_t rows, __m256 sum, int first) {
  if (rows == PANEL) {
    _mm256_storeu_ps(y, first ? sum : _mm256_add_ps(_mm256_loadu_ps(y), sum));
  } else {
    float s[PANEL];
    _mm256_storeu_ps(s, sum);
    for (size_t i = 0; i < rows; i++) skeep_section_end((skeep_f32_any *)y + i, s[i], first);
  }
}

/* A section of a panel, against some tokens. */
struct section {
  const char *cells, *x; /* x at the section's first block */
  int64_t x_stride;
  float *y;
  int64_t y_stride;
  size_t rows, groups;
  int first;
};
SKEEP_INLINE void integer_section(const struct section *p, const int tokens, const struct integer_form form) {
  const char *cells = p->cells;
  const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16),
                zero = _mm256_set1_epi16((short)-form.zero);
  const int64_t x_stride = p->x_stride;
  __m256 sum[4];
  for (int t = 0; t < tokens; t++) sum[t] = _mm256_setzero_ps();
  for (size_t g = 0; g < p->groups; g++, cells += CELL_BYTES(form)) {
    const char *block = p->x + g / 4 * SKEEP_BYTES_a8;
    const size_t k = g % 4;
    const char *codes = block + offsetof(skeep_block_a8, qs) + 32 * k;
    __m256i low[4], high[4];
    for (int i = 0; i < 8; i++) {
      const __m256i w0 = _mm256_load_si256((const __m256i *)(cells + CELL_CODES + 32 * i));
      const __m256i w1 =
          form.planes == 2 ? _mm256_load_si256((const __m256i *)(cells + CELL_CODES + 256 + 32 * i)) : w0;
      for (int t = 0; t < tokens; t++) {
        const __m256i a = broadcast4(codes + t * x_stride + 4 * i);
        const __m256i p0 = _mm256_maddubs_epi16(w0, a);
        low[t] = i ? _mm256_add_epi16(low[t], p0) : p0;
        PIN(low[t]);
        if (form.planes == 2) {
          const __m256i p1 = _mm256_maddubs_epi16(w1, a);
          high[t] = i ? _mm256_add_epi16(high[t], p1) : p1;
          PIN(high[t]);
        }
      }
    }
    const __m256 scale = _mm256_load_ps((const float *)cells);
    for (int t = 0; t < tokens; t++) {
      const char *b = block + t * x_stride;
      __m256i s = _mm256_madd_epi16(low[t], ones);
      if (form.planes == 2) s = _mm256_add_epi32(s, _mm256_madd_epi16(high[t], sixteens));
      const __m256i pair = broadcast4(b + offsetof(skeep_block_a8, sums) + 4 * k); /* two sums of 16 codes */
      s = _mm256_add_epi32(s, _mm256_madd_epi16(pair, zero));
      const __m256 d = _mm256_mul_ps(scale, _mm256_set1_ps(load_f32(b + 4 * k)));
      sum[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s), d, sum[t]);
    }
  }
  for (int t = 0; t < tokens; t++) panel_end(p->y + t * p->y_stride, p->rows, sum[t], p->first);
}

/* Prefetches `bytes` bytes of each of eight rows, `ahead` bytes after row[i]. Any address may be prefetched. */
SKEEP_INLINE void rows_prefetch(const char *const *row, int64_t ahead, size_t bytes) {
  for (size_t i = 0; i < PANEL; i++)
    for (size_t b = 0; b < bytes; b += 64) _mm_prefetch(row[i] + ahead + b, _MM_HINT_T1);
}

/* How far ahead to prefetch when the reader is `at` bytes into rows of row_bytes: `step`, which behind the end of a
 * row leads to the row that is `rows` further. */
SKEEP_INLINE int64_t rows_ahead(const struct skeep_matmul_tile *tile, size_t row_bytes, size_t rows, size_t at,
                                size_t step) {
  return at + step < row_bytes ? (int64_t)step : (int64_t)rows * tile->w_stride + (int64_t)step - (int64_t)row_bytes;
}

/* row[i] = row o + i of the weights, `at` bytes in. Rows past the last one repeat it and are not stored. */
SKEEP_INLINE void panel_rows(const struct skeep_matmul_tile *tile, size_t o, size_t at, const char **row) {
  for (size_t i = 0; i < PANEL; i++)
    row[i] = tile->w + (int64_t)skeep_min(o + i, tile->rows - 1) * tile->w_stride + at;
}

/* For each of eight rows, the sum over one group at row[i] + at of codes times the 32 codes of a; form.zero says
 * which code means 0, as in cells, or is 0 where this function takes signed codes. */
typedef __m256i integer_group(const char *const *row, size_t at, const char *a);

/* One token: rows are read side by side and multiplied as they are unpacked; the same sums in the same order. For
 * encodings whose blocks are one group and begin with their scale. */
SKEEP_INLINE void integer_one(const struct skeep_matmul_tile *tile, integer_group *group,
                              const struct integer_form form) {
  const size_t row_bytes = tile->n / form.block * form.bytes;
  const __m256i zero = _mm256_set1_epi16((short)-form.zero);
  for (size_t o = 0; o < tile->rows; o += PANEL) {
    const char *row[PANEL], *x = tile->x;
    panel_rows(tile, o, 0, row);
    size_t at = 0;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      __m256 sum = _mm256_setzero_ps();
      for (size_t g = 0; g < groups; g++, at += form.bytes) {
        if (g % 4 == 0)
          rows_prefetch(row, (int64_t)at + rows_ahead(tile, row_bytes, PANEL, at, 512), 4 * form.bytes);
        const char *b = x + g / 4 * SKEEP_BYTES_a8;
        __m256i s = group(row, at, b + offsetof(skeep_block_a8, qs) + g % 4 * 32);
        if (form.zero) {
          const __m256i pair = broadcast4(b + offsetof(skeep_block_a8, sums) + 4 * (g % 4));
          s = _mm256_add_epi32(s, _mm256_madd_epi16(pair, zero));
        }
        const __m256 d = _mm256_mul_ps(rows_half(row, at), _mm256_set1_ps(load_f32(b + 4 * (g % 4))));
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s), d, sum);
      }
      panel_end(tile->y + o, skeep_min(PANEL, tile->rows - o), sum, !k);
      x += SKEEP_SECTION / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8;
    }
  }
}

/* Many tokens: panels of rows, unpacked a section at a time, against as many tokens at once as registers hold. */
SKEEP_INLINE void integer_many(const struct skeep_matmul_tile *tile, integer_unpack *unpack,
                               const struct integer_form form) {
  const size_t most = form.planes == 1 ? 4 : 3, panel_bytes = SKEEP_SECTION / 32 * CELL_BYTES(form);
  const size_t row_bytes = tile->n / form.block * form.bytes, section = SKEEP_SECTION / form.block * form.bytes;
  for (size_t o = 0; o < tile->rows; o += PANEL * PANELS) {
    const size_t panels = (skeep_min(PANEL * PANELS, tile->rows - o) + PANEL - 1) / PANEL;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32, at = k / form.block * form.bytes;
      for (size_t p = 0; p < panels; p++) {
        const char *row[PANEL];
        panel_rows(tile, o + p * PANEL, at, row);
        rows_prefetch(row, rows_ahead(tile, row_bytes, PANEL * PANELS, at, section), section);
        unpack(row, groups, (char *)tile->scratch + p * panel_bytes);
      }
      const char *x = tile->x + k / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8;
      size_t parts = (tile->tokens + most - 1) / most;
      for (size_t t = 0, tokens; t < tile->tokens; t += tokens, parts--) {
        tokens = (tile->tokens - t + parts - 1) / parts; /* nine tokens are three times three */
        for (size_t p = 0; p < panels; p++) {
          const struct section s = {(const char *)tile->scratch + p * panel_bytes,
                                    x + (int64_t)t * tile->x_stride,
                                    tile->x_stride,
                                    tile->y + (int64_t)t * tile->y_stride + o + p * PANEL,
                                    tile->y_stride,
                                    skeep_min(PANEL, tile->rows - o - p * PANEL),
                                    groups,
                                    k == 0};
          switch (tokens) {
            case 1: integer_section(&s, 1, form); break;
            case 2: integer_section(&s, 2, form); break;
            case 3: integer_section(&s, 3, form); break;
            default: integer_section(&s, 4, form); break;
          }
        }
      }
    }
  }
}

#endif
