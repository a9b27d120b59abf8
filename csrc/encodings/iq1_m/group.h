/* As IQ1_S, with a scale for each 16 elements and a delta for each 8. See decode_portable.h. */
#include "tile/group.h"

static inline void iq1_m_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_iq1_m *b = GROUP_BLOCK(iq1_m, row, g);
  const float d = skeep_iq1_m_d(b);
  for (int k = 0; k < 4; k++) {
    const size_t at = 4 * (g % 8) + (size_t)k;
    const uint32_t h = b->qh[at / 2] >> 4 * (at % 2);
    const int delta = h & 8 ? -1 : 1;
    const uint64_t grid = skeep_grid_iq1_s[b->index[at] | (h & 7) << 8];
    for (int j = 0; j < 8; j++) out->code[8 * k + j] = (int16_t)(8 * (int8_t)(grid >> 8 * j & 255) + delta);
  }
  for (size_t i = 0; i < 2; i++) {
    const size_t k = 2 * (g % 8) + i; /* of the 16 */
    out->scale[i] = d * (float)(2 * (b->scales[k / 4] >> 3 * (k % 4) & 7) + 1) * 0.125f;
    out->offset[i] = 0;
  }
}
