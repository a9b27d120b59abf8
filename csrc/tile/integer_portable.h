/* The integer product in plain C, for every encoding. The fast ones are compared with it. */
#ifndef SKEEP_TILE_INTEGER_PORTABLE_H
#define SKEEP_TILE_INTEGER_PORTABLE_H

#include "tile/group.h"

SKEEP_INLINE void integer_portable(const struct skeep_matmul_tile *tile, const struct skeep_run *runs,
                                   integer_group_of *group_of, size_t block, size_t bytes) {
  struct integer_group *w = tile->scratch;
  char *copy = (char *)(w + SKEEP_SECTION / 32);
  for (size_t o = 0; o < tile->rows; o++) {
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      const char *row = skeep_tile_blocks(tile, runs, o, k, 32 * groups, block, bytes, copy);
      for (size_t g = 0; g < groups; g++) group_of(row, g, &w[g]);
      for (size_t t = 0; t < tile->tokens; t++) {
        const skeep_block_a8 *x = (const void *)(tile->x + (int64_t)t * tile->x_stride);
        x += k / SKEEP_ELEMENTS_a8;
        float sum = 0;
        for (size_t g = 0; g < groups; g++) {
          const skeep_block_a8 *a = x + g / 4;
          for (size_t h = 2 * (g % 4), i = 0; i < 2; i++, h++) {
            int32_t s = 0;
            for (size_t j = 0; j < 16; j++) s += w[g].code[16 * i + j] * a->qs[16 * h + j];
            /* Without an offset the scales meet first: a large one of the weights may meet a tiny one of the activations. With
             * one, both terms are small next to either scale and may cancel. */
            if (w[g].offset[i] == 0)
              sum += a->d[h / 2] * w[g].scale[i] * (float)s;
            else
              sum += a->d[h / 2] * (w[g].scale[i] * (float)s + w[g].offset[i] * (float)a->sums[h]);
          }
        }
        skeep_section_end((skeep_f32_any *)tile->y + (int64_t)t * tile->y_stride + o, sum, k == 0);
      }
    }
  }
}

/* The product of an encoding with A8, through its group.h: as stored, and in feed order. */
#define GROUP_PRODUCT(form)                                                                \
  void skeep_matmul_t_##form##_a8_portable(const struct skeep_matmul_tile *tile) {         \
    integer_portable(tile, NULL, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form); \
  }
#define GROUP_PRODUCT_FEED(NAME, form)                                                   \
  void skeep_matmul_t_##form##_a8_feed_portable(const struct skeep_matmul_tile *tile) {  \
    integer_portable(tile, skeep_feed_runs(SKEEP_ENC_##NAME), form##_group,              \
                     SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);                         \
  }

#endif
