/* code * d + m. See decode_portable.h. */
#include "tile/group.h"

static inline void q5_1_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q5_1 *b = GROUP_BLOCK(q5_1, row, g);
  const uint32_t high = b->qh;
  for (int j = 0; j < 16; j++) {
    out->code[j] = (int16_t)((b->qs[j] & 15u) | (high >> j & 1u) << 4);
    out->code[j + 16] = (int16_t)((b->qs[j] >> 4) | (high >> (j + 16) & 1u) << 4);
  }
  group_scale(out, skeep_f16_to_f32(b->d), skeep_f16_to_f32(b->m));
}
