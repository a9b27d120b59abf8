/* Q8_0: code * d. Codes become unsigned by 128, the zero point. */
#include "tile/integer_avx512.h"

static inline void q8_0_codes_avx512(const char *const *row, size_t at, __m512i q[8]) {
  const __m512i flip = _mm512_set1_epi8((char)0x80);
  rows_by_dword(row, at + offsetof(skeep_block_q8_0, qs), q);
  rows_by_dword(row, at + offsetof(skeep_block_q8_0, qs) + 16, q + 4);
  for (int i = 0; i < 8; i++) q[i] = _mm512_xor_si512(q[i], flip);
}

void skeep_matmul_t_q8_0_a8_avx512(const struct skeep_matmul_tile *tile) {
  integer_product(tile, q8_0_codes_avx512, (struct integer_form){128, sizeof(skeep_block_q8_0)});
}
