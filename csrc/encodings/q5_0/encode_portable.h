/* As Q4_0 with one bit more: d = m / -16, code = min(31, floor(x / d + 16.5)). */
#include "blocks.h"

void skeep_encode_q5_0_portable(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_q5_0 *b = blocks;
  for (size_t i = 0; i < count; i++, b++, x += 32) {
    float m = 0;
    for (int j = 0; j < 32; j++)
      if (fabsf(x[j]) > fabsf(m)) m = x[j];
    const float d = m / -16, inverse = d != 0 ? 1 / d : 0;
    uint32_t qh = 0;
    b->d = skeep_f32_to_f16(skeep_any_nan(x, 32) ? NAN : d);
    for (int j = 0; j < 16; j++) {
      const uint32_t low = skeep_code(x[j] * inverse + 16.5f, 31), high = skeep_code(x[j + 16] * inverse + 16.5f, 31);
      b->qs[j] = (uint8_t)((low & 15) | (high & 15) << 4);
      qh |= low >> 4 << j | high >> 4 << (j + 16);
    }
    b->qh = qh;
  }
}
