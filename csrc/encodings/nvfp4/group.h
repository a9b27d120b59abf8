/* d / 2 * twice the value of the code, with a scale for each 16 elements. See decode_portable.h. */
#include "tile/group.h"

static inline void nvfp4_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_nvfp4 *b = GROUP_BLOCK(nvfp4, row, g);
  for (size_t i = 0; i < 2; i++) {
    const size_t k = g % 2 * 2 + i;
    for (size_t j = 0; j < 8; j++) {
      out->code[16 * i + j] = skeep_values_e2m1[b->qs[8 * k + j] & 15];
      out->code[16 * i + j + 8] = skeep_values_e2m1[b->qs[8 * k + j] >> 4];
    }
    out->scale[i] = 0.5f * skeep_ue4m3(b->d[k]);
    out->offset[i] = 0;
  }
}
