/* d * value[code]. Each 16 elements have a scale and eight bytes of codes, of which the low nibbles are the first half.
 * The table has twice the values, so half of the scale is used, which is exact. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_nvfp4_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_nvfp4 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    for (int g = 0; g < 4; g++, y += 16) {
      const float d = 0.5f * skeep_ue4m3(b->d[g]);
      const uint8_t *q = b->qs + 8 * g;
      for (int j = 0; j < 8; j++) {
        y[j] = (float)skeep_values_e2m1[q[j] & 15] * d;
        y[j + 8] = (float)skeep_values_e2m1[q[j] >> 4] * d;
      }
    }
  }
}
