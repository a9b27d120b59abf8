/* d * scale * (code - 32), with a scale for each 16 elements. See decode_portable.h. */
#include "tile/group.h"

static inline void q6_k_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q6_k *b = GROUP_BLOCK(q6_k, row, g);
  const float d = skeep_f16_to_f32(b->d);
  const size_t half = g % 8 / 4, quarter = g % 4;
  const uint8_t *l = b->ql + 64 * half + 32 * (quarter & 1), *h = b->qh + 32 * half;
  const int low = (int)(quarter >> 1) * 4, high = (int)quarter * 2;
  for (int j = 0; j < 32; j++) out->code[j] = (int16_t)(((l[j] >> low & 15) | (h[j] >> high & 3) << 4) - 32);
  for (size_t i = 0; i < 2; i++) {
    out->scale[i] = d * (float)b->scales[2 * (g % 8) + i];
    out->offset[i] = 0;
  }
}
