/* (code - 1) * d; 128 elements share 32 bytes of codes, two bits for each quarter. */
#include "blocks.h"

void skeep_decode_tq2_0_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_tq2_0 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 256; j++) y[j] = (float)((b->qs[j / 128 * 32 + j % 32] >> 2 * (j / 32 % 4) & 3) - 1) * d;
  }
}
