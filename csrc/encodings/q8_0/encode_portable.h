/* d = max|x| / 127, code = x / d rounded to the nearest, ties away from zero, from d before it is rounded to half. */
#include "blocks.h"

void skeep_encode_q8_0_portable(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_q8_0 *b = blocks;
  for (size_t i = 0; i < count; i++, b++, x += 32) {
    float amax = 0;
    for (int j = 0; j < 32; j++) amax = fabsf(x[j]) > amax ? fabsf(x[j]) : amax;
    const float d = amax / 127, inverse = d != 0 ? 1 / d : 0;
    b->d = skeep_f32_to_f16(skeep_any_nan(x, 32) ? NAN : d);
    for (int j = 0; j < 32; j++) {
      const float code = roundf(x[j] * inverse);
      b->qs[j] = (int8_t)(code > -127 ? code < 127 ? code : 127 : -127);
    }
  }
}
