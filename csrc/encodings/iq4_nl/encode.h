/* The sixteen values of a codebook, with one scale. */
#include "encodings/shared/iq4_encode.h"

void DENSE(encode_iq4_nl)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_iq4_nl *y = blocks;
  for (; count--; x += 32, y++) {
    struct search_block b;
    uint8_t q[32];
    search_load(x, 32, &b);
    y->d = scaled_single(&b, 32, &codes_iq4, &how_iq4, q);
    for (int j = 0; j < 16; j++) y->qs[j] = (uint8_t)(q[j] | q[j + 16] << 4);
  }
}
