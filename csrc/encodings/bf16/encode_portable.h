/* Rounded to the nearest bfloat16, ties to even. */
#include "blocks.h"

void skeep_encode_bf16_portable(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  char *y = blocks;
  for (size_t i = 0; i < count; i++) {
    const uint16_t h = skeep_f32_to_bf16(x[i]);
    memcpy(y + 2 * i, &h, 2);
  }
}
