/* Scales and minima of four bits for each 16 elements. */
#include "search/affine_template.h"

void DENSE(encode_q2_k)(const float *in, size_t count, void *blocks) {
  static const struct affine_grid grid = {16, 16, 3, 15};
  const skeep_f32_any *x = in;
  skeep_block_q2_k *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    struct affine_block a;
    search_load(x, 256, &b);
    affine_block(&b, &grid, &a);
    y->d = a.d;
    y->dmin = a.dmin;
    for (int g = 0; g < 16; g++) y->scales[g] = (uint8_t)(a.scales[g] | a.mins[g] << 4);
    for (int j = 0; j < 64; j++) {
      const uint8_t *q = a.q + j / 32 * 128 + j % 32;
      y->qs[j] = (uint8_t)(q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6);
    }
  }
}
