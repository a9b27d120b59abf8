#include "tile/exact_portable.h"

void skeep_matmul_t_f32_f32_portable(const struct skeep_matmul_tile *tile) {
  exact_portable(tile, skeep_decode_f32_portable, SKEEP_ELEMENTS_f32, SKEEP_BYTES_f32);
}
