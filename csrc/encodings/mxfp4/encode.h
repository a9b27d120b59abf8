/* E2M1 codes with a scale that is a power of two. */
#include "encodings/shared/e2m1_encode.h"

void DENSE(encode_mxfp4)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_mxfp4 *y = blocks;
  for (; count--; x += 32, y++) {
    struct search_block b;
    uint8_t q[32];
    memset(y, 0, sizeof *y);
    search_load(x, 32, &b);
    if (!(b.unit > 0)) continue;
    /* The largest magnitude is in [1, 4) * unit, the largest code 12. */
    int power;
    (void)frexpf(b.unit, &power); /* unit = 2^(power - 1) */
    float min_error = INFINITY, best = 0;
    for (int k = -4; k <= 0; k++) {
      const int e = power - 1 + k + 128;
      if (e < 0 || e > 255) continue;
      const float scale = ldexpf(1, k), error = scaled_error(b.x, 32, &codes_e2m1, scale);
      if (error < min_error) {
        min_error = error;
        best = scale;
        y->e = (uint8_t)e;
      }
    }
    scaled_indices(b.x, 32, &codes_e2m1, best, q);
    for (int j = 0; j < 16; j++) y->qs[j] = (uint8_t)(e2m1_code[q[j]] | e2m1_code[q[j + 16]] << 4);
  }
}
