/* d * (0.5 + scale) * 0.25 * magnitude * sign, with a scale for each 16 elements. See decode_portable.h. */
#include "tile/group.h"

static inline void iq2_s_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq2_s *b = GROUP_BLOCK(iq2_s, row, g);
  const float d = skeep_f16_to_f32(b->d);
  for (int k = 0; k < 4; k++) {
    const size_t at = 4 * (g % 8) + (size_t)k;
    group_signed(out->code + 8 * k, skeep_grid_iq2_s[b->index[at] | (b->qh[g % 8] >> 2 * k & 3) << 8], b->signs[at], 8);
  }
  for (int i = 0; i < 2; i++) {
    out->scale[i] = d * (0.5f + (float)(b->scales[g % 8] >> 4 * i & 15)) * 0.25f;
    out->offset[i] = 0;
  }
}
