/* What Q4_K and Q5_K share when they are encoded. */
#ifndef SKEEP_SHARED_K4_ENCODE_H
#define SKEEP_SHARED_K4_ENCODE_H

#include "search/affine_template.h"

/* The twelve bytes of eight scales and eight minima of six bits each. */
static inline void affine_pack_k4(const struct affine_block *y, uint8_t *scales) {
  for (int g = 0; g < 4; g++) {
    scales[g] = (uint8_t)(y->scales[g] | y->scales[g + 4] >> 4 << 6);
    scales[g + 4] = (uint8_t)(y->mins[g] | y->mins[g + 4] >> 4 << 6);
    scales[g + 8] = (uint8_t)((y->scales[g + 4] & 15) | (y->mins[g + 4] & 15) << 4);
  }
}

#endif
