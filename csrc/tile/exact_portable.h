/* The exact product in plain C, for every encoding with a decoder. The fast ones are compared with it. */
#ifndef SKEEP_TILE_EXACT_PORTABLE_H
#define SKEEP_TILE_EXACT_PORTABLE_H

#include "tile/tile.h"

SKEEP_INLINE void exact_portable(const struct skeep_matmul_tile *tile, const struct skeep_run *runs,
                                 skeep_body_decode *decode, size_t block, size_t bytes) {
  float *w = tile->scratch;
  char *copy = (char *)(w + SKEEP_SECTION);
  for (size_t o = 0; o < tile->rows; o++) {
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t count = skeep_min(SKEEP_SECTION, tile->n - k), whole = count - count % 8;
      decode(skeep_tile_blocks(tile, runs, o, k, count, block, bytes, copy), count / block, w);
      for (size_t t = 0; t < tile->tokens; t++) {
        const skeep_f32_any *x = (const skeep_f32_any *)(tile->x + (int64_t)t * tile->x_stride) + k;
        float lane[8] = {0};
        for (size_t j = 0; j < whole; j += 8)
          for (size_t l = 0; l < 8; l++) lane[l] += w[j + l] * x[j + l];
        for (size_t l = 0; l < count - whole; l++) lane[l] += w[whole + l] * x[whole + l];
        const float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
        skeep_section_end((skeep_f32_any *)tile->y + (int64_t)t * tile->y_stride + o, sum, k == 0);
      }
    }
  }
}

/* The product of an encoding with F32, through its decoder: as stored, and in feed order. */
#define DECODED_PRODUCT(form, decoder)                                              \
  void skeep_matmul_t_##form##_f32_portable(const struct skeep_matmul_tile *tile) { \
    exact_portable(tile, NULL, decoder, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form); \
  }
#define DECODED_PRODUCT_FEED(NAME, form, decoder)                                        \
  void skeep_matmul_t_##form##_f32_feed_portable(const struct skeep_matmul_tile *tile) { \
    exact_portable(tile, skeep_feed_runs(SKEEP_ENC_##NAME), decoder,                     \
                   SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);                           \
  }

#endif
