/* d * value[code]. Codes of four bits are stored as in Q4_0. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq4_nl_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq4_nl *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 32) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
      y[j] = d * (float)skeep_values_iq4_nl[b->qs[j] & 15];
      y[j + 16] = d * (float)skeep_values_iq4_nl[b->qs[j] >> 4];
    }
  }
}
