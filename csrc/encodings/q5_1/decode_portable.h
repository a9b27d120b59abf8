/* code * d + m. The low four bits of codes are stored as in Q4_0; bit j of qh is the fifth bit of code j. */
#include "blocks.h"

void skeep_decode_q5_1_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q5_1 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 32) {
    const float d = skeep_f16_to_f32(b->d), m = skeep_f16_to_f32(b->m);
    const uint32_t qh = b->qh;
    for (int j = 0; j < 16; j++) {
      y[j] = (float)(int)((b->qs[j] & 15u) | (qh >> j & 1u) << 4) * d + m;
      y[j + 16] = (float)(int)((b->qs[j] >> 4) | (qh >> (j + 16) & 1u) << 4) * d + m;
    }
  }
}
