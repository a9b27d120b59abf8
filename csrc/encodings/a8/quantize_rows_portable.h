/* Quantizes activations: each 32 elements get d = max|x| / 127 and codes round(x * (127 / max|x|)), ties to even. These
 * are in [-127, 127] without clamping, since the two roundings of the product add up to far less than half a code.
 *  - A maximum below 2^-119 counts as zero: otherwise d would be subnormal (or 127 / max infinite), and its few bits
 *    would make the codes wrong. The loss is smaller than any normal float times 2^7.
 *  - A NaN or infinity makes d NaN and the codes zero, so that every product that uses the group is NaN.
 * Rows are padded with zero codes (d = 0) to whole blocks. */
#include "blocks.h"

/* One group of 32 floats at any address -> one scale, 32 codes, two sums. */
static void skeep_a8_group(const skeep_f32_any *x, float *d, int8_t *codes, int16_t *sums) {
  uint32_t max = 0; /* magnitudes compare as their bits do, and NaN > infinity > the rest */
  for (int j = 0; j < 32; j++) {
    uint32_t bits;
    memcpy(&bits, (const char *)x + 4 * j, 4);
    bits &= 0x7fffffffu;
    max = bits > max ? bits : max;
  }
  float amax, inverse = 0;
  memcpy(&amax, &max, 4);
  *d = max >= 0x7f800000u ? NAN : amax < 0x1p-119f ? 0.0f : amax / 127.0f;
  if (*d > 0) inverse = 127.0f / amax;
  sums[0] = sums[1] = 0;
  for (int j = 0; j < 32; j++) {
    int32_t code = 0;
    if (*d > 0) { /* adding 1.5 * 2^23 leaves the rounded integer in the low bits */
      const float shifted = x[j] * inverse + 0x1.8p23f;
      memcpy(&code, &shifted, 4);
      code -= 0x4b400000;
    }
    codes[j] = (int8_t)code;
    sums[j / 16] = (int16_t)(sums[j / 16] + code);
  }
}

void skeep_quantize_rows_f32_a8_portable(const float *in, size_t n, void *blocks) {
  const skeep_f32_any *x = in;
  char *y = blocks;
  for (size_t i = 0; i < n; i += 128, y += sizeof(skeep_block_a8)) {
    skeep_block_a8 b;
    memset(&b, 0, sizeof b);
    for (size_t g = 0; g < 4 && i + 32 * g < n; g++) {
      float tail[32] = {0}, d;
      int16_t sums[2];
      const size_t left = n - (i + 32 * g);
      if (left < 32) memcpy(tail, (const char *)in + 4 * (i + 32 * g), 4 * left);
      skeep_a8_group(left < 32 ? tail : x + i + 32 * g, &d, b.qs + 32 * g, sums);
      b.d[g] = d;
      memcpy((char *)&b.sums + 4 * g, sums, 4);
    }
    memcpy(y, &b, sizeof b);
  }
}
