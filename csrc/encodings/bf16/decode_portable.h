/* A bfloat16 is the upper half of a float: decoding is exact. */
#include "blocks.h"

void skeep_decode_bf16_portable(const void *blocks, size_t count, float *out) {
  const char *x = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++) {
    uint16_t h;
    memcpy(&h, x + 2 * i, 2);
    y[i] = skeep_bf16_to_f32(h);
  }
}
