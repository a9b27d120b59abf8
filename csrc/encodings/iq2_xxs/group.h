/* d * (0.5 + scale) * 0.25 * magnitude * sign. See decode_portable.h. */
#include "tile/group.h"

static inline void iq2_xxs_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq2_xxs *b = GROUP_BLOCK(iq2_xxs, row, g);
  const uint32_t signs = b->group[g % 8].signs;
  for (int k = 0; k < 4; k++)
    group_signed(out->code + 8 * k, skeep_grid_iq2_xxs[b->group[g % 8].index[k]], skeep_signs[signs >> 7 * k & 127], 8);
  group_scale(out, skeep_f16_to_f32(b->d) * (0.5f + (float)(signs >> 28)) * 0.25f, 0);
}
