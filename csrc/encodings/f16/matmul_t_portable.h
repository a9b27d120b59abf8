#include "tile/exact_portable.h"

void skeep_matmul_t_f16_f32_portable(const struct skeep_matmul_tile *tile) {
  exact_portable(tile, skeep_decode_f16_portable, SKEEP_ELEMENTS_f16, SKEEP_BYTES_f16);
}
