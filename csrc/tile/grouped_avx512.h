/* The products of the grouped encodings for AVX-512. */
#include "tile/exact_avx512.h"
#include "tile/grouped.h"
#include "tile/panel_avx512.h"
#include "tile/paneled.h"

#define EXACT(form, decoder)                                                                                   \
  void skeep_matmul_t_##form##_f32_avx512(const struct skeep_matmul_tile *tile) {                              \
    exact_decoded(tile, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, skeep_decode_##form##_##decoder);           \
  }
EACH_GROUPED(EXACT)
#undef EXACT

#define PANELED(form, decoder)                                                                                 \
  void skeep_matmul_t_##form##_a8_avx512(const struct skeep_matmul_tile *tile) {                               \
    panel_product(tile, form##_open, form##_read, form##_panel);                                               \
  }
EACH_PANELED(PANELED)
#undef PANELED
