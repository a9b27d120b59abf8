/* d * scale * code - dmin * min. Each 16 elements have a scale and a min of four bits. 128 elements share 32 bytes of
 * codes: each byte has two bits for one element of each quarter. */
#include "blocks.h"

void skeep_decode_q2_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q2_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256) {
    const float d = skeep_f16_to_f32(b->d), dmin = skeep_f16_to_f32(b->dmin);
    for (int g = 0; g < 16; g++) {
      const float scale = d * (float)(b->scales[g] & 15), min = dmin * (float)(b->scales[g] >> 4);
      const uint8_t *q = b->qs + g / 8 * 32 + g % 2 * 16;
      const int shift = g / 2 % 4 * 2;
      for (int j = 0; j < 16; j++) y[16 * g + j] = scale * (float)(q[j] >> shift & 3) - min;
    }
  }
}
