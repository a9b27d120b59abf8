/* m = min, d = (max - min) / 15, code = floor((x - m) / d + 0.5), with both before they are rounded to half. */
#include "blocks.h"

void skeep_encode_q4_1_portable(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_q4_1 *b = blocks;
  for (size_t i = 0; i < count; i++, b++, x += 32) {
    float min = x[0], max = x[0];
    for (int j = 1; j < 32; j++) {
      min = x[j] < min ? x[j] : min;
      max = x[j] > max ? x[j] : max;
    }
    const float d = (max - min) / 15, inverse = d != 0 ? 1 / d : 0;
    b->d = skeep_f32_to_f16(skeep_any_nan(x, 32) ? NAN : d);
    b->m = skeep_f32_to_f16(min);
    for (int j = 0; j < 16; j++)
      b->qs[j] = (uint8_t)(skeep_code((x[j] - min) * inverse + 0.5f, 15) |
                           skeep_code((x[j + 16] - min) * inverse + 0.5f, 15) << 4);
  }
}
