/* d * (0.5 + scale) * 0.25 * magnitude * sign. Each 32 elements have four grid indices, then four sign indices of seven
 * bits and a scale of four bits. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq2_xxs_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq2_xxs *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    for (int g = 0; g < 8; g++) {
      const uint32_t signs = b->group[g].signs;
      const float scale = d * (0.5f + (float)(signs >> 28)) * 0.25f;
      for (int k = 0; k < 4; k++, y += 8) {
        const uint64_t grid = skeep_grid_iq2_xxs[b->group[g].index[k]];
        const uint32_t negative = skeep_signs[signs >> 7 * k & 127];
        for (int j = 0; j < 8; j++)
          y[j] = scale * (float)(int)(grid >> 8 * j & 255) * (negative >> j & 1 ? -1.0f : 1.0f);
      }
    }
  }
}
