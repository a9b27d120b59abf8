/* d * (0.5 + scale) * 0.25 * magnitude * sign. Each 8 elements have a grid index (eight bits, and two more in qh) and a
 * byte of signs; each 16 have a scale of four bits. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq2_s_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq2_s *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    for (int k = 0; k < 32; k++, y += 8) {
      const float scale = d * (0.5f + (float)(b->scales[k / 4] >> k / 2 % 2 * 4 & 15)) * 0.25f;
      const uint64_t grid = skeep_grid_iq2_s[b->index[k] | (b->qh[k / 4] >> 2 * (k % 4) & 3) << 8];
      for (int j = 0; j < 8; j++)
        y[j] = scale * (float)(int)(grid >> 8 * j & 255) * (b->signs[k] >> j & 1 ? -1.0f : 1.0f);
    }
  }
}
