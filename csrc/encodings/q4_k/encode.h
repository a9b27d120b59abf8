/* Scales and minima of six bits for each 32 elements. */
#include "encodings/shared/k4_encode.h"

void DENSE(encode_q4_k)(const float *in, size_t count, void *blocks) {
  static const struct affine_grid grid = {8, 32, 15, 63};
  const skeep_f32_any *x = in;
  skeep_block_q4_k *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    struct affine_block a;
    search_load(x, 256, &b);
    affine_block(&b, &grid, &a);
    y->d = a.d;
    y->dmin = a.dmin;
    affine_pack_k4(&a, y->scales);
    for (int j = 0; j < 128; j++) y->qs[j] = (uint8_t)(a.q[j / 32 * 64 + j % 32] | a.q[j / 32 * 64 + 32 + j % 32] << 4);
  }
}
