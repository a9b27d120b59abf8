/* The function that tile/int16_x86_template.h needs, with AVX2. */
#ifndef SKEEP_TILE_INT16_AVX2_H
#define SKEEP_TILE_INT16_AVX2_H

#include "tile/panel_avx2.h"

SKEEP_INLINE __m256i int16_multiply(__m256i sum, __m256i codes, __m256i a) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(codes, a));
}

#include "tile/int16_x86_template.h"

/* The product of a form with A8, through its group.h. */
#define GROUP_PRODUCT(form)                                                       \
  void skeep_matmul_t_##form##_a8_avx2(const struct skeep_matmul_tile *tile) {    \
    int16_product(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);  \
  }

#endif
