/* Q4_0: (code - 8) * d; low nibbles are the first half of a group. */
#include "tile/integer_avx512.h"

static inline void q4_0_codes_avx512(const char *const *row, size_t at, __m512i q[8]) {
  const __m512i nibble = _mm512_set1_epi8(15);
  rows_by_dword(row, at + offsetof(skeep_block_q4_0, qs), q);
  for (int i = 0; i < 4; i++) {
    q[i + 4] = _mm512_and_si512(_mm512_srli_epi16(q[i], 4), nibble);
    q[i] = _mm512_and_si512(q[i], nibble);
  }
}

void skeep_matmul_t_q4_0_a8_avx512(const struct skeep_matmul_tile *tile) {
  integer_product(tile, q4_0_codes_avx512, (struct integer_form){8, sizeof(skeep_block_q4_0)});
}
