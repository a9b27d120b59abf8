/* The products of the grouped encodings for AVX2.
 *
 * Codes are 16 bits wide here, which any code fits, signed and with integer scales of sub-blocks in it: a pair of
 * codes of each of eight rows in one register meets a pair of activations, broadcast, in vpmaddwd. The 16 elements
 * of half a group have a scale and an offset of their own. One token and many give the same bits: both take exact
 * integer sums of halves and the same floating steps in the same order. */
#include "tile/exact_avx2.h"
#include "tile/grouped.h"
#include "tile/integer_avx2.h"
#include "tile/panel_avx2.h"
#include "tile/paneled.h"

/* Half a group of eight rows: pair i of row r in dword r of code[i]. */
struct grouped_half {
  float scale[8], offset[8];
  int16_t code[8][16];
};
struct grouped_cell {
  struct grouped_half half[2];
};

/* Dword r of out[i]: dword i of in[r]. */
SKEEP_INLINE void transpose_8x8(const __m256i in[8], __m256i out[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; i++) {
    a[2 * i] = _mm256_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
  }
  for (int i = 0; i < 2; i++) {
    b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    out[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    out[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

SKEEP_INLINE void grouped_cell_fill(const struct integer_group w[8], struct grouped_cell *cell) {
  for (int h = 0; h < 2; h++) {
    __m256i in[8], out[8];
    for (int r = 0; r < 8; r++) {
      cell->half[h].scale[r] = w[r].scale[h];
      cell->half[h].offset[r] = w[r].offset[h];
      in[r] = _mm256_loadu_si256((const __m256i *)(w[r].code + 16 * h));
    }
    transpose_8x8(in, out);
    for (int i = 0; i < 8; i++) _mm256_store_si256((__m256i *)cell->half[h].code[i], out[i]);
  }
}

/* Adds half a group to the sum of a section: s integer sums of codes times codes, a the activations' block. */
SKEEP_INLINE __m256 grouped_add(__m256 sum, __m256i s, __m256 scale, __m256 offset, const skeep_block_a8 *a, size_t h) {
  const __m256 codes = _mm256_set1_ps((float)a->sums[h]);
  const __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s), scale, _mm256_mul_ps(offset, codes));
  return _mm256_fmadd_ps(value, _mm256_set1_ps(a->d[h / 2]), sum);
}

/* A section of one panel against some tokens, whose codes x16 holds as 16 bits, SKEEP_SECTION apart. */
SKEEP_INLINE void grouped_section(const struct grouped_cell *cell, const int16_t *x16, const struct section *p,
                                  const int tokens) {
  __m256 sum[4];
  for (int t = 0; t < tokens; t++) sum[t] = _mm256_setzero_ps();
  for (size_t g = 0; g < p->groups; g++, cell++)
    for (size_t h = 0; h < 2; h++) {
      const struct grouped_half *half = &cell->half[h];
      __m256i s[4];
      for (int t = 0; t < tokens; t++) s[t] = _mm256_setzero_si256();
      for (size_t i = 0; i < 8; i++) {
        const __m256i w = _mm256_load_si256((const __m256i *)half->code[i]);
        for (int t = 0; t < tokens; t++) {
          const char *pair = (const char *)(x16 + t * SKEEP_SECTION + 32 * g + 16 * h + 2 * i);
          s[t] = _mm256_add_epi32(s[t], _mm256_madd_epi16(w, broadcast4(pair)));
        }
      }
      const __m256 scale = _mm256_load_ps(half->scale), offset = _mm256_load_ps(half->offset);
      for (int t = 0; t < tokens; t++) {
        const skeep_block_a8 *a = (const skeep_block_a8 *)(p->x + t * p->x_stride) + g / 4;
        sum[t] = grouped_add(sum[t], s[t], scale, offset, a, 2 * (g % 4) + h);
      }
    }
  for (int t = 0; t < tokens; t++) panel_end(p->y + t * p->y_stride, p->rows, sum[t], p->first);
}

/* The codes of a section of one token as 16 bits. */
SKEEP_INLINE void grouped_widen(const skeep_block_a8 *a, size_t groups, int16_t *x16) {
  for (size_t g = 0; g < groups; g++)
    for (size_t h = 0; h < 2; h++)
      _mm256_store_si256((__m256i *)(x16 + 32 * g + 16 * h),
                         _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(a[g / 4].qs + g % 4 * 32 + 16 * h))));
}

SKEEP_INLINE void grouped_one(const struct skeep_matmul_tile *tile, integer_group_of *group_of, size_t block,
                              size_t bytes) {
  int16_t *x16 = tile->scratch;
  for (size_t o = 0; o < tile->rows; o += PANEL)
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      const skeep_block_a8 *a = (const skeep_block_a8 *)tile->x + k / SKEEP_ELEMENTS_a8;
      const char *row[PANEL];
      __m256 sum = _mm256_setzero_ps();
      panel_rows(tile, o, k / block * bytes, row);
      grouped_widen(a, groups, x16);
      for (size_t g = 0; g < groups; g++) {
        float scale[2][PANEL], offset[2][PANEL];
        __m256i s[2][PANEL];
        for (int r = 0; r < PANEL; r++) {
          struct integer_group w;
          group_of(row[r], g, &w);
          for (int h = 0; h < 2; h++) {
            scale[h][r] = w.scale[h];
            offset[h][r] = w.offset[h];
            s[h][r] = _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *)(w.code + 16 * h)),
                                        _mm256_load_si256((const __m256i *)(x16 + 32 * g + 16 * h)));
          }
        }
        for (size_t h = 0; h < 2; h++)
          sum = grouped_add(sum, rows_sum_i32(s[h]), _mm256_loadu_ps(scale[h]), _mm256_loadu_ps(offset[h]), a + g / 4,
                            2 * (g % 4) + h);
      }
      panel_end(tile->y + o, skeep_min(PANEL, tile->rows - o), sum, k == 0);
    }
}

SKEEP_INLINE void grouped_many(const struct skeep_matmul_tile *tile, integer_group_of *group_of, size_t block,
                               size_t bytes) {
  struct grouped_cell *cells = tile->scratch;
  int16_t *x16 = (int16_t *)(cells + PANELS * (SKEEP_SECTION / 32));
  for (size_t o = 0; o < tile->rows; o += PANEL * PANELS) {
    const size_t panels = (skeep_min(PANEL * PANELS, tile->rows - o) + PANEL - 1) / PANEL;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      for (size_t p = 0; p < panels; p++) {
        const char *row[PANEL];
        panel_rows(tile, o + p * PANEL, k / block * bytes, row);
        for (size_t g = 0; g < groups; g++) {
          struct integer_group w[PANEL];
          for (int r = 0; r < PANEL; r++) group_of(row[r], g, &w[r]);
          grouped_cell_fill(w, &cells[p * (SKEEP_SECTION / 32) + g]);
        }
      }
      const char *x = tile->x + k / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8;
      size_t parts = (tile->tokens + 3) / 4;
      for (size_t t = 0, tokens; t < tile->tokens; t += tokens, parts--) {
        tokens = (tile->tokens - t + parts - 1) / parts;
        for (size_t i = 0; i < tokens; i++)
          grouped_widen((const skeep_block_a8 *)(x + (int64_t)(t + i) * tile->x_stride), groups, x16 + i * SKEEP_SECTION);
        for (size_t p = 0; p < panels; p++) {
          const struct section s = {NULL,
                                    x + (int64_t)t * tile->x_stride,
                                    tile->x_stride,
                                    tile->y + (int64_t)t * tile->y_stride + o + p * PANEL,
                                    tile->y_stride,
                                    skeep_min(PANEL, tile->rows - o - p * PANEL),
                                    groups,
                                    k == 0};
          const struct grouped_cell *cell = cells + p * (SKEEP_SECTION / 32);
          switch (tokens) {
            case 1: grouped_section(cell, x16, &s, 1); break;
            case 2: grouped_section(cell, x16, &s, 2); break;
            case 3: grouped_section(cell, x16, &s, 3); break;
            default: grouped_section(cell, x16, &s, 4); break;
          }
        }
      }
    }
  }
}

#define EXACT(form, decoder)                                                                                   \
  void skeep_matmul_t_##form##_f32_avx2(const struct skeep_matmul_tile *tile) {                                \
    exact_decoded(tile, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, skeep_decode_##form##_##decoder);           \
  }
EACH_GROUPED(EXACT)
#undef EXACT

#define PANELED(form, decoder)                                                                                 \
  void skeep_matmul_t_##form##_a8_avx2(const struct skeep_matmul_tile *tile) {                                 \
    panel_product(tile, form##_open, form##_read, form##_panel);                                               \
  }
EACH_PANELED(PANELED)
#undef PANELED

#define WORDED(form, decoder)                                                                                  \
  void skeep_matmul_t_##form##_a8_avx2(const struct skeep_matmul_tile *tile) {                                 \
    if (tile->tokens == 1) {                                                                                   \
      grouped_one(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);                              \
    } else {                                                                                                   \
      grouped_many(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);                             \
    }                                                                                                          \
  }
EACH_WORDED(WORDED)
#undef WORDED
