/* As Q4_K, with a fifth bit of codes from qh. See decode_portable.h. */
#include "tile/group.h"

static inline void q5_k_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q5_k *b = GROUP_BLOCK(q5_k, row, g);
  const uint8_t *q = b->qs + g % 8 / 2 * 32;
  const int shift = (int)(g % 2) * 4, bit = (int)(g % 8);
  for (int j = 0; j < 32; j++) out->code[j] = (int16_t)((q[j] >> shift & 15) | (b->qh[j] >> bit & 1) << 4);
  const uint32_t k = (uint32_t)(g % 8);
  group_scale(out, skeep_f16_to_f32(b->d) * (float)skeep_k4_scale(b->scales, k),
              -(skeep_f16_to_f32(b->dmin) * (float)skeep_k4_min(b->scales, k)));
}
