/* d * scale * code - dmin * min, with scale and min for each 32 elements. 64 elements share 32 bytes of codes: the low
 * nibbles are the first half. */
#include "blocks.h"

void skeep_decode_q4_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q4_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256) {
    const float d = skeep_f16_to_f32(b->d), dmin = skeep_f16_to_f32(b->dmin);
    for (uint32_t g = 0; g < 8; g++) {
      const float scale = d * (float)skeep_k4_scale(b->scales, g), min = dmin * (float)skeep_k4_min(b->scales, g);
      const uint8_t *q = b->qs + g / 2 * 32;
      for (uint32_t j = 0; j < 32; j++) y[32 * g + j] = scale * (float)(q[j] >> 4 * (g % 2) & 15) - min;
    }
  }
}
