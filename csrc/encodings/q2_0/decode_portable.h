/* (code - 1) * d. A byte has four codes, the first in its low bits. */
#include "blocks.h"

void skeep_decode_q2_0_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q2_0 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 64) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 64; j++) y[j] = (float)((b->qs[j / 4] >> 2 * (j % 4) & 3) - 1) * d;
  }
}
