/* (trit - 1) * d. The first 160 elements are five trits of 32 bytes each, the next 80 of 16, the last 16 four of four. See decode_portable.h. */
#include "tile/group.h"

static inline void tq1_0_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_tq1_0 *b = GROUP_BLOCK(tq1_0, row, g);
  static const uint8_t power[5] = {1, 3, 9, 27, 81};
  const size_t k = g % 8;
  for (size_t j = 0; j < 32; j++) {
    const size_t e = 32 * k + j;
    const uint8_t q = e < 160 ? b->qs[e % 32] : e < 240 ? b->qs[32 + (e - 160) % 16] : b->qh[(e - 240) % 4];
    const size_t n = e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4;
    out->code[j] = (int16_t)(((uint8_t)(q * power[n]) * 3 >> 8) - 1);
  }
  group_scale(out, skeep_f16_to_f32(b->d), 0);
}
