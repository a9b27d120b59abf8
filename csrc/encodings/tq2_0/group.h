/* (code - 1) * d. See decode_portable.h. */
#include "tile/group.h"

static inline void tq2_0_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_tq2_0 *b = GROUP_BLOCK(tq2_0, row, g);
  const uint8_t *q = b->qs + g % 8 / 4 * 32;
  const int shift = (int)(g % 4) * 2;
  for (int j = 0; j < 32; j++) out->code[j] = (int16_t)((q[j] >> shift & 3) - 1);
  group_scale(out, skeep_f16_to_f32(b->d), 0);
}
