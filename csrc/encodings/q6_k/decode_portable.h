/* d * scale * (code - 32), with a scale for each 16 elements. 128 elements share 64 bytes of low nibbles (each half is
 * used by two quarters) and 32 bytes of high bits (each byte has two bits for one element of each quarter). */
#include "blocks.h"

void skeep_decode_q6_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q6_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256) {
    const float d = skeep_f16_to_f32(b->d);
    for (int g = 0; g < 16; g++) {
      const int half = g / 8, quarter = g / 2 % 4, at = g % 2 * 16;
      const float scale = d * (float)b->scales[g];
      const uint8_t *l = b->ql + 64 * half + 32 * (quarter & 1) + at, *h = b->qh + 32 * half + at;
      for (int j = 0; j < 16; j++) {
        const int code = (l[j] >> 4 * (quarter >> 1) & 15) | (h[j] >> 2 * quarter & 3) << 4;
        y[16 * g + j] = scale * (float)(code - 32);
      }
    }
  }
}
