/* E2M1 codes with a UE4M3 scale for each 16 elements. */
#include "encodings/shared/e2m1_encode.h"

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
      /* Tries the first scale with which no element exceeds the largest code, and some around it. Scales ascend with
       * the byte. */
      const float extreme = fabsf(search_extreme(b.x, 16)) * b.unit;
      int first = 1;
      while (first < 0x7e && 6 * skeep_ue4m3((uint8_t)first) < extreme) first++;
      float min_error = INFINITY, best = 0;
      for (int e = first > 8 ? first - 8 : 1; e <= first + 1 && e < 0x7f; e++) {
        const float scale = 0.5f * skeep_ue4m3((uint8_t)e) / b.unit, error = scaled_error(b.x, 16, &codes_e2m1, scale);
        if (error < min_error) {
          min_error = error;
          best = scale;
          y->d[g] = (uint8_t)e;
        }
      }
      scaled_indices(b.x, 16, &codes_e2m1, best, q);
      for (int j = 0; j < 8; j++) y->qs[8 * g + j] = (uint8_t)(e2m1_code[q[j]] | e2m1_code[q[j + 8]] << 4);
    }
  }
}
