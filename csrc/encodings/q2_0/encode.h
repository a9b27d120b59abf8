/* Values code - 1 in [-1, 2]. */
#include "search/scaled_template.h"

void DENSE(encode_q2_0)(const float *in, size_t count, void *blocks) {
  static const struct scaled_codes codes = {.lo = -1, .hi = 2};
  static const struct scaled_search how = {{2, 0}, 0.125f, 12};
  const skeep_f32_any *x = in;
  skeep_block_q2_0 *y = blocks;
  for (; count--; x += 64, y++) {
    struct search_block b;
    uint8_t q[64];
    search_load(x, 64, &b);
    y->d = scaled_single(&b, 64, &codes, &how, q);
    for (int j = 0; j < 16; j++)
      y->qs[j] = (uint8_t)(q[4 * j] | q[4 * j + 1] << 2 | q[4 * j + 2] << 4 | q[4 * j + 3] << 6);
  }
}
