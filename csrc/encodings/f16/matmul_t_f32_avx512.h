#include "tile/exact_avx512.h"

SKEEP_INLINE __m512 exact_f16(const char *p, size_t count) {
  return _mm512_cvtph_ps(exact_16(p, count));
}

void skeep_matmul_t_f16_f32_avx512(const struct skeep_matmul_tile *tile) {
  if (tile->tokens <= EXACT_IN_PLACE) {
    exact_in_place(tile, 2, exact_f16);
  } else {
    exact_decoded(tile, NULL, 1, 2, skeep_decode_f16_avx2);
  }
}
