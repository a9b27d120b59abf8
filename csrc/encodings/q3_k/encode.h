/* Values in [-4, 3], with a scale of six bits for each 16 elements. */
#include "search/scaled_template.h"

void DENSE(encode_q3_k)(const float *in, size_t count, void *blocks) {
  static const struct scaled_codes codes = {.lo = -4, .hi = 3};
  static const struct scaled_search how = {{-3.75f, 0}, 0.125f, 10};
  static const struct scaled_grid grid = {16, 16, -32, 31};
  const skeep_f32_any *x = in;
  skeep_block_q3_k *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    uint8_t q[256];
    int8_t scales[16];
    search_load(x, 256, &b);
    y->d = scaled_block(&b, &grid, &codes, &how, scales, q);
    memset(y->scales, 0, sizeof y->scales);
    for (int g = 0; g < 16; g++) {
      const int s = scales[g] + 32;
      y->scales[g % 8] |= (uint8_t)((s & 15) << g / 8 * 4);
      y->scales[8 + g % 4] |= (uint8_t)(s >> 4 << g / 4 * 2);
    }
    memset(y->hmask, 0, sizeof y->hmask);
    memset(y->qs, 0, sizeof y->qs);
    for (int j = 0; j < 256; j++) {
      y->qs[j / 128 * 32 + j % 32] |= (uint8_t)((q[j] & 3) << j / 32 % 4 * 2);
      y->hmask[j % 32] |= (uint8_t)(q[j] >> 2 << j / 32);
    }
  }
}
