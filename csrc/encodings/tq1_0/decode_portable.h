/* (trit - 1) * d. A byte is a fraction of 256 with five digits in base 3: trit n of q is the integer part of
 * 3 * frac(q * 3^n / 256). Trit-major: trit 0 of 32 bytes, trit 1 ...; then of 16 bytes; then four trits of the
 * four bytes of qh. */
#include "blocks.h"

void skeep_decode_tq1_0_portable(const void *blocks, size_t count, float *out) {
  static const uint8_t power[5] = {1, 3, 9, 27, 81};
  const skeep_block_tq1_0 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    const struct { const uint8_t *q; int bytes, trits; } part[3] = {{b->qs, 32, 5}, {b->qs + 32, 16, 5}, {b->qh, 4, 4}};
    for (int p = 0; p < 3; p++)
      for (int n = 0; n < part[p].trits; n++)
        for (int j = 0; j < part[p].bytes; j++) {
          const uint8_t fraction = (uint8_t)(part[p].q[j] * power[n]);
          *y++ = (float)((fraction * 3 >> 8) - 1) * d;
        }
  }
}
