/* d * (0.5 + scale) * 0.5 * magnitude * sign. See decode_portable.h. */
#include "tile/group.h"

static inline void iq3_xxs_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq3_xxs *b = GROUP_BLOCK(iq3_xxs, row, g);
  const uint32_t signs = b->signs[g % 8];
  for (int k = 0; k < 8; k++)
    group_signed(out->code + 4 * k, skeep_grid_iq3_xxs[b->index[8 * (g % 8) + (size_t)k]],
                 (uint32_t)skeep_signs[signs >> 7 * (k / 2) & 127] >> 4 * (k % 2), 4);
  group_scale(out, skeep_f16_to_f32(b->d) * (0.5f + (float)(signs >> 28)) * 0.5f, 0);
}
