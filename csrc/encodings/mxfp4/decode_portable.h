/* 2^(e - 127) * value[code], computed with half of the scale and twice the value, so that e = 255 overflows only where
 * the product does. Codes are stored as in Q4_0. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_mxfp4_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_mxfp4 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 32) {
    const float d = skeep_e8m0_half(b->e);
    for (int j = 0; j < 16; j++) {
      y[j] = (float)skeep_values_e2m1[b->qs[j] & 15] * d;
      y[j + 16] = (float)skeep_values_e2m1[b->qs[j] >> 4] * d;
    }
  }
}
