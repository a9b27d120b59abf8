/* d * (2 scale + 1) * (grid + delta), where delta is 1/8 or -1/8. Each 32 elements have four grid indices of 8 + 3
 * bits, a scale of three bits and the sign of delta. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq1_s_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq1_s *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    for (int k = 0; k < 32; k++, y += 8) {
      const uint32_t h = b->qh[k / 4];
      const float scale = d * (float)(2 * (h >> 12 & 7) + 1), delta = h >> 15 ? -0.125f : 0.125f;
      const uint64_t grid = skeep_grid_iq1_s[b->index[k] | (h >> 3 * (k % 4) & 7) << 8];
      for (int j = 0; j < 8; j++) y[j] = scale * ((float)(int8_t)(grid >> 8 * j & 255) + delta);
    }
  }
}
