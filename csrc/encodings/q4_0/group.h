/* (code - 8) * d; low nibbles are the first half of the block. */
#include "tile/group.h"

static inline void q4_0_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q4_0 *b = (const skeep_block_q4_0 *)row + g;
  for (int j = 0; j < 16; j++) {
    out->code[j] = (int16_t)((b->qs[j] & 15) - 8);
    out->code[j + 16] = (int16_t)((b->qs[j] >> 4) - 8);
  }
  out->scale[0] = out->scale[1] = skeep_f16_to_f32(b->d);
  out->offset[0] = out->offset[1] = 0;
}
