/* Rounded to the nearest float, ties to even. */
#include "../blocks.h"

void skeep_decode_i64_portable(const void *blocks, size_t count, float *out) {
  const char *x = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++) {
    int64_t v;
    memcpy(&v, x + 8 * i, 8);
    y[i] = (float)v;
  }
}
