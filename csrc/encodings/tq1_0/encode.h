/* Five trits a byte. */
#include "search/ternary_template.h"

/* Five trits a byte: with v the number whose base-3 digits they are, the byte is the smallest that is not below
 * v * 256 / 243, which is what decoding by multiplication needs. */
static inline uint8_t ternary_byte(const uint8_t *code, int stride, int trits) {
  uint32_t v = 0;
  for (int i = 0; i < 5; i++) v = v * 3 + (i < trits ? code[i * stride] : 0);
  return (uint8_t)((v * 256 + 242) / 243);
}

void DENSE(encode_tq1_0)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_tq1_0 *y = blocks;
  for (; count--; x += 256, y++) {
    struct search_block b;
    uint8_t q[256];
    search_load(x, 256, &b);
    y->d = ternary_block(&b, 256, q);
    for (int j = 0; j < 32; j++) y->qs[j] = ternary_byte(q + j, 32, 5);
    for (int j = 0; j < 16; j++) y->qs[32 + j] = ternary_byte(q + 160 + j, 16, 5);
    for (int j = 0; j < 4; j++) y->qh[j] = ternary_byte(q + 240 + j, 4, 4);
  }
}
