#include "tile/exact_portable.h"

void skeep_matmul_t_bf16_f32_portable(const struct skeep_matmul_tile *tile) {
  exact_portable(tile, skeep_decode_bf16_portable, SKEEP_ELEMENTS_bf16, SKEEP_BYTES_bf16);
}
