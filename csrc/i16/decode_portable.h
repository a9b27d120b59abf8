/* The value, exact. */
#include "../blocks.h"

void skeep_decode_i16_portable(const void *blocks, size_t count, float *out) {
  const char *x = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++) {
    int16_t v;
    memcpy(&v, x + 2 * i, 2);
    y[i] = (float)v;
  }
}
