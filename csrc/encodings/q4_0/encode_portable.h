/* d = m / -8, where m is the value of largest magnitude (of equal ones the first), so that m gets the code 0 whatever
 * its sign. code = min(15, floor(x / d + 8.5)), with d before it is rounded to half. */
#include "blocks.h"

void skeep_encode_q4_0_portable(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_q4_0 *b = blocks;
  for (size_t i = 0; i < count; i++, b++, x += 32) {
    float m = 0;
    for (int j = 0; j < 32; j++)
      if (fabsf(x[j]) > fabsf(m)) m = x[j];
    const float d = m / -8, inverse = d != 0 ? 1 / d : 0;
    b->d = skeep_f32_to_f16(skeep_any_nan(x, 32) ? NAN : d);
    for (int j = 0; j < 16; j++)
      b->qs[j] = (uint8_t)(skeep_code(x[j] * inverse + 8.5f, 15) | skeep_code(x[j + 16] * inverse + 8.5f, 15) << 4);
  }
}
