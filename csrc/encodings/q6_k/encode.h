/* Values in [-32, 31], with a scale of eight bits for each 16 elements. */
#include "search/scaled_template.h"

void DENSE(encode_q6_k)(const float *in, size_t count, void *blocks) {
  static const struct scaled_codes codes = {.lo = -32, .hi = 31};
  static const struct scaled_search how = {{-32, 0}, 0.125f, 8};
  static const struct scaled_grid grid = {16, 16, -128, 127};
  const skeep_f32_any *x = in;
  skeep_block_q6_k *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    uint8_t q[256];
    search_load(x, 256, &b);
    y->d = scaled_block(&b, &grid, &codes, &how, y->scales, q);
    for (int half = 0; half < 2; half++)
      for (int l = 0; l < 32; l++) {
        const uint8_t *e = q + 128 * half + l;
        y->ql[64 * half + l] = (uint8_t)((e[0] & 15) | (e[64] & 15) << 4);
        y->ql[64 * half + 32 + l] = (uint8_t)((e[32] & 15) | (e[96] & 15) << 4);
        y->qh[32 * half + l] = (uint8_t)(e[0] >> 4 | e[32] >> 4 << 2 | e[64] >> 4 << 4 | e[96] >> 4 << 6);
      }
  }
}
