/* d * scale * code, with a scale for each 16 elements. See decode_portable.h. */
#include "tile/group.h"

static inline void q3_k_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q3_k *b = GROUP_BLOCK(q3_k, row, g);
  const float d = skeep_f16_to_f32(b->d);
  const uint8_t *q = b->qs + g % 8 / 4 * 32;
  const int shift = (int)(g % 4) * 2, bit = (int)(g % 8);
  for (int j = 0; j < 32; j++) out->code[j] = (int16_t)((q[j] >> shift & 3) + (b->hmask[j] >> bit & 1) * 4 - 4);
  for (uint32_t i = 0; i < 2; i++) {
    out->scale[i] = d * (float)skeep_q3_k_scale(b->scales, (uint32_t)(g % 8) * 2 + i);
    out->offset[i] = 0;
  }
}
