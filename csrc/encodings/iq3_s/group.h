/* d * (1 + 2 scale) * magnitude * sign. See decode_portable.h. */
#include "tile/group.h"

static inline void iq3_s_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq3_s *b = GROUP_BLOCK(iq3_s, row, g);
  for (int k = 0; k < 8; k++)
    group_signed(out->code + 4 * k, skeep_grid_iq3_s[b->index[8 * (g % 8) + (size_t)k] | (b->qh[g % 8] >> k & 1) << 8],
                 (uint32_t)b->signs[4 * (g % 8) + (size_t)k / 2] >> 4 * (k % 2), 4);
  group_scale(out, skeep_f16_to_f32(b->d) * (float)(1 + 2 * (b->scales[g % 8 / 2] >> g % 2 * 4 & 15)), 0);
}
