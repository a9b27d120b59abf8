/* The integer product for x86 with int16 codes, for encodings whose codes do not fit into bytes. The including file
 * defines what tile/panel_x86_template.h needs and int16_multiply, which adds the products of pairs of int16 codes. */
#ifndef SKEEP_TILE_INT16_X86_H
#define SKEEP_TILE_INT16_X86_H
#ifndef PANELS_AT_ONCE
#error "parameters: those of tile/panel_x86_template.h, and int16_multiply, of tile/int16_<set>.h"
#endif

#include "tile/group.h"

/* 32 elements of each row of a panel, with int16 codes. The 32-bit lane r of code[k] has the codes 2k and 2k + 1 of row
 * r. */
struct int16_group {
  panel_float scale[2], offset[2];
  panel_int code[16];
};

SKEEP_INLINE void int16_read(const char *const *row, size_t g, integer_group_of *group_of, struct int16_group *out) {
  struct integer_group w[PANEL];
  const char *at[PANEL];
  panel_int floats[4];
  for (int r = 0; r < PANEL; r++) {
    group_of(row[r], g, &w[r]);
    at[r] = (const char *)&w[r];
  }
  for (size_t i = 0; i < 4; i++) rows_by_dword(at, offsetof(struct integer_group, code) + 16 * i, out->code + 4 * i);
  _Static_assert(offsetof(struct integer_group, offset) == offsetof(struct integer_group, scale) + 8, "together");
  rows_by_dword(at, offsetof(struct integer_group, scale), floats);
  for (int h = 0; h < 2; h++) {
    out->scale[h] = (panel_float)floats[h];
    out->offset[h] = (panel_float)floats[2 + h];
  }
}

/* The activations and outputs of a section of some panels, some tokens. */
struct int16_rows {
  const char *x; /* at the section's first block */
  int64_t x_stride;
  float *y;
  int64_t y_stride;
  size_t rows, groups;
  int first;
};

/* Multiplies a section of some panels with some tokens. cells has SKEEP_SECTION / 32 groups for each panel, x16 has
 * SKEEP_SECTION int16 codes for each token. */
SKEEP_INLINE void int16_section(const struct int16_group *cells, const int16_t *x16, const struct int16_rows *q,
                               const int panels, const int tokens) {
  panel_float sum[PANELS_AT_ONCE][4];
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++) sum[p][t] = panel_zero();
  for (size_t g = 0; g < q->groups; g++)
    for (size_t h = 0; h < 2; h++) {
      panel_int s[PANELS_AT_ONCE][4];
      for (int p = 0; p < panels; p++)
        for (int t = 0; t < tokens; t++) s[p][t] = panel_all(0);
      for (size_t i = 0; i < 8; i++)
        for (int t = 0; t < tokens; t++) {
          const panel_int pair = panel_broadcast((const char *)(x16 + t * SKEEP_SECTION + 32 * g + 16 * h + 2 * i));
          for (int p = 0; p < panels; p++)
            s[p][t] = int16_multiply(s[p][t], cells[p * (SKEEP_SECTION / 32) + (int)g].code[8 * h + i], pair);
        }
      for (int t = 0; t < tokens; t++) {
        const skeep_block_a8 *a = (const skeep_block_a8 *)(q->x + t * q->x_stride) + g / 4;
        const panel_float codes = panel_value(panel_all((uint32_t)a->sums[2 * (g % 4) + h]));
        const panel_float d = (panel_float)panel_broadcast((const char *)(a->d + g % 4));
        for (int p = 0; p < panels; p++) {
          const struct int16_group *w = &cells[p * (SKEEP_SECTION / 32) + (int)g];
          const panel_float value = panel_fma(panel_value(s[p][t]), w->scale[h], w->offset[h] * codes);
          sum[p][t] = panel_fma(value, d, sum[p][t]);
        }
      }
    }
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++)
      panel_end(q->y + t * q->y_stride + p * PANEL, skeep_min(PANEL, q->rows - (size_t)p * PANEL), sum[p][t],
                q->first);
}

/* Converts the codes of a section of one token to int16. */
SKEEP_INLINE void int16_widen(const skeep_block_a8 *a, size_t groups, int16_t *x16) {
  for (size_t i = 0; i < 2 * groups; i++)
    _mm256_store_si256((__m256i *)(x16 + 16 * i),
                       _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(a[i / 8].qs + i % 8 * 16))));
}

/* A section of `panels` panels with some tokens. One function for all encodings, since it does not depend on them. */
static __attribute__((noinline)) void int16_sections(const struct int16_group *cells, size_t panels,
                                                    const int16_t *x16, const struct int16_rows *first, size_t tokens) {
  const size_t step = panels >= PANELS_AT_ONCE ? PANELS_AT_ONCE : 1;
  struct int16_rows s = *first;
  for (size_t p = 0; p < panels; p += step, s.y += step * PANEL, s.rows -= step * PANEL) {
    const struct int16_group *cell = cells + p * (SKEEP_SECTION / 32);
#define CALL(panels, tokens) int16_section(cell, x16, &s, panels, tokens)
    PANEL_CASES(step, tokens, CALL, )
#undef CALL
  }
}

SKEEP_INLINE void int16_product(const struct skeep_matmul_tile *tile, integer_group_of *group_of, size_t block,
                               size_t bytes) {
  struct int16_group *cells = tile->scratch;
  int16_t *x16 = (int16_t *)(cells + PANELS * (SKEEP_SECTION / 32));
  for (size_t o = 0; o < tile->rows; o += PANEL * PANELS) {
    const size_t panels = (skeep_min(PANEL * PANELS, tile->rows - o) + PANEL - 1) / PANEL;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      for (size_t p = 0; p < panels; p++) {
        const char *row[PANEL];
        panel_rows(tile, o + p * PANEL, k / block * bytes, row);
        for (size_t g = 0; g < groups; g++) int16_read(row, g, group_of, &cells[p * (SKEEP_SECTION / 32) + g]);
      }
      const char *x = tile->x + k / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8;
      size_t parts = (tile->tokens + 3) / 4;
      for (size_t t = 0, tokens; t < tile->tokens; t += tokens, parts--) {
        tokens = (tile->tokens - t + parts - 1) / parts;
        for (size_t i = 0; i < tokens; i++)
          int16_widen((const skeep_block_a8 *)(x + (int64_t)(t + i) * tile->x_stride), groups, x16 + i * SKEEP_SECTION);
        const struct int16_rows s = {
                                  x + (int64_t)t * tile->x_stride,
                                  tile->x_stride,
                                  tile->y + (int64_t)t * tile->y_stride + o,
                                  tile->y_stride,
                                  tile->rows - o,
                                  groups,
                                  k == 0};
        int16_sections(cells, panels, x16, &s, tokens);
      }
    }
  }
}

#endif
