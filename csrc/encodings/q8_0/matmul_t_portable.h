/* code * d. */
#include "tile/exact_portable.h"
#include "tile/integer_portable.h"

static inline void q8_0_group(const char *row, size_t g, struct integer_group *out) {
  const skeep_block_q8_0 *b = (const skeep_block_q8_0 *)row + g;
  for (int j = 0; j < 32; j++) out->code[j] = b->qs[j];
  out->scale[0] = out->scale[1] = skeep_f16_to_f32(b->d);
  out->offset[0] = out->offset[1] = 0;
}

void skeep_matmul_t_q8_0_a8_portable(const struct skeep_matmul_tile *tile) {
  integer_portable(tile, q8_0_group, SKEEP_ELEMENTS_q8_0, SKEEP_BYTES_q8_0);
}

void skeep_matmul_t_q8_0_f32_portable(const struct skeep_matmul_tile *tile) {
  exact_portable(tile, skeep_decode_q8_0_portable, SKEEP_ELEMENTS_q8_0, SKEEP_BYTES_q8_0);
}
