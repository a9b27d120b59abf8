/* Codes are -1 and 1, so the best scale is the mean magnitude. */
#include "search/search.h"

void DENSE(encode_q1_0)(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  skeep_block_q1_0 *y = blocks;
  for (; count--; x += 128, y++) {
    struct search_block b;
    search_load(x, 128, &b);
    memset(y->bits, 0, sizeof y->bits);
    y->d = b.unit == 0 ? 0 : SEARCH_NAN;
    if (!(b.unit > 0)) continue;
    v8 sum = v8_set(0);
    for (int j = 0; j < 128; j += 8) sum = v8_add(sum, v8_abs(v8_load(b.x + j)));
    float d = v8_sum(sum) / 128;
    y->d = search_half(&d, b.unit);
    for (int j = 0; j < 128; j++) y->bits[j / 8] |= (uint8_t)((b.x[j] >= 0) << j % 8);
  }
}
