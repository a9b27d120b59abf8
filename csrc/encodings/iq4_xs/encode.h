/* As IQ4_NL, with a scale of six bits for each 32 elements. */
#include "encodings/shared/iq4_encode.h"

void DENSE(encode_iq4_xs)(const float *in, size_t count, void *blocks) {
  static const struct scaled_grid grid = {8, 32, -32, 31};
  const skeep_f32_any *x = in;
  skeep_block_iq4_xs *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    uint8_t q[256];
    int8_t scales[8];
    search_load(x, 256, &b);
    y->d = scaled_block(&b, &grid, &codes_iq4, &how_iq4, scales, q);
    memset(y->scales_l, 0, sizeof y->scales_l);
    y->scales_h = 0;
    for (int g = 0; g < 8; g++) {
      const int s = scales[g] + 32;
      y->scales_l[g / 2] |= (uint8_t)((s & 15) << 4 * (g % 2));
      y->scales_h |= (uint16_t)(s >> 4 << 2 * g);
      for (int j = 0; j < 16; j++) y->qs[16 * g + j] = (uint8_t)(q[32 * g + j] | q[32 * g + j + 16] << 4);
    }
  }
}
