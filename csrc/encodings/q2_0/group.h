/* (code - 1) * d, four codes in a byte. See decode_portable.h. */
#include "tile/group.h"

static inline void q2_0_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q2_0 *b = GROUP_BLOCK(q2_0, row, g);
  const uint8_t *q = b->qs + 8 * (g % 2);
  for (int j = 0; j < 32; j++) out->code[j] = (int16_t)((q[j / 4] >> 2 * (j % 4) & 3) - 1);
  group_scale(out, skeep_f16_to_f32(b->d), 0);
}
