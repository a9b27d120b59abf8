/* d * scale * value[code]. See decode_portable.h. */
#include "tile/group.h"

static inline void iq4_xs_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq4_xs *b = GROUP_BLOCK(iq4_xs, row, g);
  const uint8_t *q = b->qs + 16 * (g % 8);
  for (int j = 0; j < 16; j++) {
    out->code[j] = skeep_values_iq4_nl[q[j] & 15];
    out->code[j + 16] = skeep_values_iq4_nl[q[j] >> 4];
  }
  group_scale(out, skeep_f16_to_f32(b->d) * (float)skeep_iq4_xs_scale(b, (uint32_t)(g % 8)), 0);
}
