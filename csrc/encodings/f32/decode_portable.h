/* A copy. */
#include "blocks.h"

void skeep_decode_f32_portable(const void *blocks, size_t count, float *out) {
  memcpy(out, blocks, count * 4);
}
