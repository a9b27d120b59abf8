/* d * (2 scale + 1) * (grid + delta), where delta is 1/8 or -1/8. Each 8 elements have a grid index of 8 + 3 bits and
 * the sign of delta; each 16 have a scale of three bits. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq1_m_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq1_m *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_iq1_m_d(b);
    for (int k = 0; k < 32; k++, y += 8) {
      const uint32_t h = b->qh[k / 2] >> 4 * (k % 2);
      const float scale = d * (float)(2 * (b->scales[k / 8] >> 3 * (k / 2 % 4) & 7) + 1);
      const float delta = h & 8 ? -0.125f : 0.125f;
      const uint64_t grid = skeep_grid_iq1_s[b->index[k] | (h & 7) << 8];
      for (int j = 0; j < 8; j++) y[j] = scale * ((float)(int8_t)(grid >> 8 * j & 255) + delta);
    }
  }
}
