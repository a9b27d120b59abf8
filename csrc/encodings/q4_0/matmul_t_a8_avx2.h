/* Q4_0: (code - 8) * d; low nibbles are the first half of a group. */
#include "tile/integer_avx2.h"

static const struct integer_form q4_0_avx2 = {1, 8, 32, sizeof(skeep_block_q4_0)};

/* Dword i of q[k]: codes 4k..4k+3 of row i. */
SKEEP_INLINE void q4_0_codes_avx2(const char *const *row, size_t at, __m256i q[8]) {
  const __m256i nibble = _mm256_set1_epi8(15);
  rows_by_dword(row, at + offsetof(skeep_block_q4_0, qs), q);
  for (int i = 0; i < 4; i++) {
    q[i + 4] = _mm256_and_si256(_mm256_srli_epi16(q[i], 4), nibble);
    q[i] = _mm256_and_si256(q[i], nibble);
  }
}

static inline void q4_0_unpack_avx2(const char *const *row, size_t groups, char *cells) {
  for (size_t g = 0; g < groups; g++, cells += CELL_BYTES(q4_0_avx2)) {
    const size_t at = g * sizeof(skeep_block_q4_0);
    __m256i q[8];
    q4_0_codes_avx2(row, at, q);
    _mm256_store_ps((float *)cells, rows_half(row, at));
    for (int i = 0; i < 8; i++) _mm256_store_si256((__m256i *)(cells + CELL_CODES + 32 * i), q[i]);
  }
}

static inline __m256i q4_0_group_avx2(const char *const *row, size_t at, const char *a) {
  __m256i q[8], s = _mm256_setzero_si256();
  q4_0_codes_avx2(row, at, q);
  for (int i = 0; i < 8; i++) s = _mm256_add_epi16(s, _mm256_maddubs_epi16(q[i], broadcast4(a + 4 * i)));
  return _mm256_madd_epi16(s, _mm256_set1_epi16(1));
}

void skeep_matmul_t_q4_0_a8_avx2(const struct skeep_matmul_tile *tile) {
  if (tile->tokens == 1) {
    integer_one(tile, q4_0_group_avx2, q4_0_avx2);
  } else {
    integer_many(tile, q4_0_unpack_avx2, q4_0_avx2);
  }
}
