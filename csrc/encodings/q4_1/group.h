/* code * d + m. See decode_portable.h. */
#include "tile/group.h"

static inline void q4_1_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q4_1 *b = GROUP_BLOCK(q4_1, row, g);
  for (int j = 0; j < 16; j++) {
    out->code[j] = b->qs[j] & 15;
    out->code[j + 16] = b->qs[j] >> 4;
  }
  group_scale(out, skeep_f16_to_f32(b->d), skeep_f16_to_f32(b->m));
}
