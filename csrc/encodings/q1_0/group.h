/* d or -d. See decode_portable.h. */
#include "tile/group.h"

static inline void q1_0_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q1_0 *b = GROUP_BLOCK(q1_0, row, g);
  for (size_t j = 0; j < 32; j++) out->code[j] = (int16_t)((b->bits[4 * (g % 4) + j / 8] >> j % 8 & 1) * 2 - 1);
  group_scale(out, skeep_f16_to_f32(b->d), 0);
}
