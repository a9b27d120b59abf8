/* Bodies of products that are made of a template and what is particular to an encoding, in plain C: one line each in
 * generated/bodies_portable.h. */
#include "tile/exact_portable.h"
#include "tile/integer_portable.h"

/* Through group.h of the form. */
#define GROUP_PRODUCT(form)                                                           \
  void skeep_matmul_t_##form##_a8_portable(const struct skeep_matmul_tile *tile) {    \
    integer_portable(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);  \
  }
/* F32 activations: through the decoder of the form. */
#define DECODED_PRODUCT(form, decoder)                                                \
  void skeep_matmul_t_##form##_f32_portable(const struct skeep_matmul_tile *tile) {   \
    exact_portable(tile, decoder, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);         \
  }
