/* Rounded to the nearest half, ties to even; overflows to infinity. */
#include "blocks.h"

void skeep_encode_f16_portable(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  char *y = blocks;
  for (size_t i = 0; i < count; i++) {
    const uint16_t h = skeep_f32_to_f16(x[i]);
    memcpy(y + 2 * i, &h, 2);
  }
}
