/* d * scale * code. Codes are stored as in Q2_K, and 4 is subtracted when the bit for the element's group of 32 is not
 * set in hmask. */
#include "blocks.h"

void skeep_decode_q3_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q3_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256) {
    const float d = skeep_f16_to_f32(b->d);
    for (int g = 0; g < 16; g++) {
      const float scale = d * (float)skeep_q3_k_scale(b->scales, (uint32_t)g);
      const uint8_t *q = b->qs + g / 8 * 32 + g % 2 * 16, *h = b->hmask + g % 2 * 16;
      const int shift = g / 2 % 4 * 2, bit = g / 2;
      for (int j = 0; j < 16; j++) {
        const int code = (q[j] >> shift & 3) - (h[j] >> bit & 1 ? 0 : 4);
        y[16 * g + j] = scale * (float)code;
      }
    }
  }
}
