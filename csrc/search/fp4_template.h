/* Formats of E2M1 codes under a scale that is a byte: MXFP4 (a power of two) and NVFP4 (UE4M3).
 *
 * The scales are so few that those around the one at which the largest element is the largest code are all tried, with
 * the nearest codes of each. A scale of these formats cannot say "not a number": callers refuse such input, and NVFP4
 * also what is larger than 6 * 448. */
#ifndef DENSE
#error "parameters: the vectors v8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif
#include "search.h"

/* The values of E2M1, doubled, in ascending order, and the code of each. */
static const struct scaled_codes codes_e2m1 = {
    -12, 12, 15, {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12},
    {-10, -7, -5, -3.5f, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10}};
static const uint8_t e2m1_code[15] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7};

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
    float least = INFINITY, best = 0;
    for (int k = -4; k <= 0; k++) {
      const int e = power - 1 + k + 128;
      if (e < 0 || e > 255) continue;
      const float scale = ldexpf(1, k), error = scaled_error(b.x, 32, &codes_e2m1, scale);
      if (error < least) {
        least = error;
        best = scale;
        y->e = (uint8_t)e;
      }
    }
    scaled_indices(b.x, 32, &codes_e2m1, best, q);
    for (int j = 0; j < 16; j++) y->qs[j] = (uint8_t)(e2m1_code[q[j]] | e2m1_code[q[j + 16]] << 4);
  }
}

void DENSE(encode_nvfp4)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_nvfp4 *y = blocks;
  for (; count--; y++) {
    memset(y, 0, sizeof *y);
    for (int g = 0; g < 4; g++, x += 16) {
      struct search_block b;
      uint8_t q[16];
      search_load(x, 16, &b);
      if (!(b.unit > 0)) continue;
      /* The first scale at which no element exceeds the largest code, and some below; they ascend with the byte. */
      const float extreme = fabsf(search_extreme(b.x, 16)) * b.unit;
      int first = 1;
      while (first < 0x7e && 6 * skeep_ue4m3((uint8_t)first) < extreme) first++;
      float least = INFINITY, best = 0;
      for (int e = first > 8 ? first - 8 : 1; e <= first + 1 && e < 0x7f; e++) {
        const float scale = 0.5f * skeep_ue4m3((uint8_t)e) / b.unit, error = scaled_error(b.x, 16, &codes_e2m1, scale);
        if (error < least) {
          least = error;
          best = scale;
          y->d[g] = (uint8_t)e;
        }
      }
      scaled_indices(b.x, 16, &codes_e2m1, best, q);
      for (int j = 0; j < 8; j++) y->qs[8 * g + j] = (uint8_t)(e2m1_code[q[j]] | e2m1_code[q[j + 8]] << 4);
    }
  }
}
