#include "tile/exact_avx512.h"

void skeep_matmul_t_f32_f32_avx512(const struct skeep_matmul_tile *tile) { exact_in_place(tile, 4, exact_f32); }
