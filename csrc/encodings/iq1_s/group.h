/* d * (2 scale + 1) * (grid + delta). A code is 8 * (grid + delta). See decode_portable.h. */
#include "tile/group.h"

static inline void iq1_s_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq1_s *b = GROUP_BLOCK(iq1_s, row, g);
  const uint32_t h = b->qh[g % 8];
  const int delta = h >> 15 ? -1 : 1;
  for (int k = 0; k < 4; k++) {
    const uint64_t grid = skeep_grid_iq1_s[b->index[4 * (g % 8) + (size_t)k] | (h >> 3 * k & 7) << 8];
    for (int j = 0; j < 8; j++) out->code[8 * k + j] = (int16_t)(8 * (int8_t)(grid >> 8 * j & 255) + delta);
  }
  group_scale(out, skeep_f16_to_f32(b->d) * (float)(2 * (h >> 12 & 7) + 1) * 0.125f, 0);
}
