/* code * d. */
#include "blocks.h"

void skeep_decode_q8_0_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q8_0 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 32) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 32; j++) y[j] = (float)b->qs[j] * d;
  }
}
