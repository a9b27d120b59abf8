/* Rounded to the nearest float, ties to even. */
#include "../blocks.h"

void skeep_decode_i32_portable(const void *blocks, size_t count, float *out) {
  const char *x = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++) {
    int32_t v;
    memcpy(&v, x + 4 * i, 4);
    y[i] = (float)v;
  }
}
