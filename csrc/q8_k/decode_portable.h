/* code * d; the sums are for products only. */
#include "../blocks.h"

void skeep_decode_q8_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q8_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256)
    for (int j = 0; j < 256; j++) y[j] = (float)b->qs[j] * b->d;
}
