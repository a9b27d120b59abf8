/* As Q4_K. The fifth bit of element j of the g-th group of 32 is bit g of qh[j]. */
#include "blocks.h"

void skeep_decode_q5_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q5_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256) {
    const float d = skeep_f16_to_f32(b->d), dmin = skeep_f16_to_f32(b->dmin);
    for (uint32_t g = 0; g < 8; g++) {
      const float scale = d * (float)skeep_k4_scale(b->scales, g), min = dmin * (float)skeep_k4_min(b->scales, g);
      const uint8_t *q = b->qs + g / 2 * 32;
      for (uint32_t j = 0; j < 32; j++) {
        const int code = (q[j] >> 4 * (g % 2) & 15) | (b->qh[j] >> g & 1) << 4;
        y[32 * g + j] = scale * (float)code - min;
      }
    }
  }
}
