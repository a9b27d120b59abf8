/* d * scale * code - dmin * min, with scale and min for each 16 elements. See decode_portable.h. */
#include "tile/group.h"

static inline void q2_k_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q2_k *b = GROUP_BLOCK(q2_k, row, g);
  const float d = skeep_f16_to_f32(b->d), dmin = skeep_f16_to_f32(b->dmin);
  const uint8_t *q = b->qs + g % 8 / 4 * 32;
  const int shift = (int)(g % 4) * 2;
  for (int j = 0; j < 32; j++) out->code[j] = q[j] >> shift & 3;
  for (size_t i = 0; i < 2; i++) {
    const uint8_t s = b->scales[2 * (g % 8) + i];
    out->scale[i] = d * (float)(s & 15);
    out->offset[i] = -(dmin * (float)(s >> 4));
  }
}
