/* d where the element's bit is set, else -d. */
#include "blocks.h"

void skeep_decode_q1_0_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q1_0 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 128) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 128; j++) y[j] = b->bits[j / 8] >> j % 8 & 1 ? d : -d;
  }
}
