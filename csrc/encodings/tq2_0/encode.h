/* Two bits a code. */
#include "search/ternary_template.h"

void DENSE(encode_tq2_0)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_tq2_0 *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    uint8_t q[256];
    search_load(x, 256, &b);
    y->d = ternary_block(&b, 256, q);
    for (int j = 0; j < 64; j++) {
      const uint8_t *e = q + j / 32 * 128 + j % 32;
      y->qs[j] = (uint8_t)(e[0] | e[32] << 2 | e[64] << 4 | e[96] << 6);
    }
  }
}
