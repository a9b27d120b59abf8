#include "tile/exact_avx2.h"

SKEEP_INLINE __m256 exact_bf16(const char *p, size_t count) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(exact_16(p, count)), 16));
}

void skeep_matmul_t_bf16_f32_avx2(const struct skeep_matmul_tile *tile) {
  if (tile->tokens <= EXACT_IN_PLACE) {
    exact_in_place(tile, 2, exact_bf16);
  } else {
    exact_decoded(tile, NULL, 1, 2, skeep_decode_bf16_avx2);
  }
}
