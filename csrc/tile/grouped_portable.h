/* The products of the grouped encodings in plain C. */
#include "tile/exact_portable.h"
#include "tile/grouped.h"
#include "tile/integer_portable.h"

#define PRODUCTS(form, decoder)                                                                            \
  void skeep_matmul_t_##form##_a8_portable(const struct skeep_matmul_tile *tile) {                \
    integer_portable(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);              \
  }                                                                                               \
  void skeep_matmul_t_##form##_f32_portable(const struct skeep_matmul_tile *tile) {               \
    exact_portable(tile, skeep_decode_##form##_portable, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form); \
  }
EACH_GROUPED(PRODUCTS)
#undef PRODUCTS
