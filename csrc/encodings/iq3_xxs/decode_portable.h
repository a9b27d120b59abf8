/* d * (0.5 + scale) * 0.5 * magnitude * sign. Each 32 elements have eight grid indices, for four elements each; signs
 * and scale are as in IQ2_XXS. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq3_xxs_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq3_xxs *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    for (int k = 0; k < 64; k++, y += 4) {
      const uint32_t signs = b->signs[k / 8];
      const float scale = d * (0.5f + (float)(signs >> 28)) * 0.5f;
      const uint32_t grid = skeep_grid_iq3_xxs[b->index[k]];
      const uint32_t negative = (uint32_t)skeep_signs[signs >> 7 * (k / 2 % 4) & 127] >> 4 * (k % 2);
      for (int j = 0; j < 4; j++) y[j] = scale * (float)(int)(grid >> 8 * j & 255) * (negative >> j & 1 ? -1.0f : 1.0f);
    }
  }
}
