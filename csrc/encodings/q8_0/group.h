/* code * d. */
#include "tile/group.h"

static inline void q8_0_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q8_0 *b = (const skeep_block_q8_0 *)row + g;
  for (int j = 0; j < 32; j++) out->code[j] = b->qs[j];
  out->scale[0] = out->scale[1] = skeep_f16_to_f32(b->d);
  out->offset[0] = out->offset[1] = 0;
}
