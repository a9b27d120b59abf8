/* 2^(e - 128) * twice the value of the code. See decode_portable.h. */
#include "tile/group.h"

static inline void mxfp4_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_mxfp4 *b = GROUP_BLOCK(mxfp4, row, g);
  for (int j = 0; j < 16; j++) {
    out->code[j] = skeep_values_e2m1[b->qs[j] & 15];
    out->code[j + 16] = skeep_values_e2m1[b->qs[j] >> 4];
  }
  group_scale(out, skeep_e8m0_half(b->e), 0);
}
