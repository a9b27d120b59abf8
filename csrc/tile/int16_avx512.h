/* The function that tile/int16_x86_template.h needs, with AVX-512 with VNNI. */
#ifndef SKEEP_TILE_INT16_AVX512_H
#define SKEEP_TILE_INT16_AVX512_H

#include "tile/panel_avx512.h"

SKEEP_INLINE __m512i int16_multiply(__m512i sum, __m512i codes, __m512i a) {
  return _mm512_dpwssd_epi32(sum, codes, a);
}

#include "tile/int16_x86_template.h"

/* The product of a form with A8, through its group.h. */
#define GROUP_PRODUCT(form)                                                       \
  void skeep_matmul_t_##form##_a8_avx512(const struct skeep_matmul_tile *tile) {    \
    int16_product(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);  \
  }

#endif
