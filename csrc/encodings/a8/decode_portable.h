/* code * d, one d for each 32 elements. The sums are used by products only. */
#include "blocks.h"

void skeep_decode_a8_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_a8 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 128)
    for (int j = 0; j < 128; j++) y[j] = (float)b->qs[j] * b->d[j / 32];
}
