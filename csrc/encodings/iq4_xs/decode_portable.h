/* d * scale * value[code]. Each 32 elements have a scale, and 16 bytes of codes stored as in Q4_0. */
#include "blocks.h"
#include "codebooks.h"

void skeep_decode_iq4_xs_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_iq4_xs *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    for (uint32_t g = 0; g < 8; g++, y += 32) {
      const float scale = d * (float)skeep_iq4_xs_scale(b, g);
      const uint8_t *q = b->qs + 16 * g;
      for (int j = 0; j < 16; j++) {
        y[j] = scale * (float)skeep_values_iq4_nl[q[j] & 15];
        y[j + 16] = scale * (float)skeep_values_iq4_nl[q[j] >> 4];
      }
    }
  }
}
