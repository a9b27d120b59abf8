/* As Q4_1 with 31 steps: d = (max - min) / 31. */
#include "blocks.h"

void skeep_encode_q5_1_portable(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_q5_1 *b = blocks;
  for (size_t i = 0; i < count; i++, b++, x += 32) {
    float min = x[0], max = x[0];
    for (int j = 1; j < 32; j++) {
      min = x[j] < min ? x[j] : min;
      max = x[j] > max ? x[j] : max;
    }
    const float d = (max - min) / 31, inverse = d != 0 ? 1 / d : 0;
    uint32_t qh = 0;
    b->d = skeep_f32_to_f16(skeep_any_nan(x, 32) ? NAN : d);
    b->m = skeep_f32_to_f16(min);
    for (int j = 0; j < 16; j++) {
      const uint32_t low = skeep_code((x[j] - min) * inverse + 0.5f, 31),
                     high = skeep_code((x[j + 16] - min) * inverse + 0.5f, 31);
      b->qs[j] = (uint8_t)((low & 15) | (high & 15) << 4);
      qh |= low >> 4 << j | high >> 4 << (j + 16);
    }
    b->qh = qh;
  }
}
