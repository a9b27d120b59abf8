/* d * (1 + 2 scale) * magnitude * sign. Each 4 elements have a grid index (eight bits, and one more in qh), each 8 a
 * byte of signs, each 32 a scale of four bits. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq3_s_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq3_s *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    for (int k = 0; k < 64; k++, y += 4) {
      const float scale = d * (float)(1 + 2 * (b->scales[k / 16] >> k / 8 % 2 * 4 & 15));
      const uint32_t grid = skeep_grid_iq3_s[b->index[k] | (b->qh[k / 8] >> k % 8 & 1) << 8];
      const uint32_t negative = (uint32_t)b->signs[k / 2] >> 4 * (k % 2);
      for (int j = 0; j < 4; j++) y[j] = scale * (float)(int)(grid >> 8 * j & 255) * (negative >> j & 1 ? -1.0f : 1.0f);
    }
  }
}
