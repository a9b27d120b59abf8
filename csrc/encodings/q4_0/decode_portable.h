/* (code - 8) * d; low nibbles are the first half of the block. */
#include "blocks.h"

void skeep_decode_q4_0_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q4_0 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 32) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
      y[j] = (float)((b->qs[j] & 15) - 8) * d;
      y[j + 16] = (float)((b->qs[j] >> 4) - 8) * d;
    }
  }
}
