/* d * value[code]. See decode_portable.h. */
#include "tile/group.h"

static inline void iq4_nl_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq4_nl *b = GROUP_BLOCK(iq4_nl, row, g);
  for (int j = 0; j < 16; j++) {
    out->code[j] = skeep_values_iq4_nl[b->qs[j] & 15];
    out->code[j + 16] = skeep_values_iq4_nl[b->qs[j] >> 4];
  }
  group_scale(out, skeep_f16_to_f32(b->d), 0);
}
