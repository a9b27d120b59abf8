/* Q8_0: code * d. In cells, codes become unsigned by 128, the zero point. */
#include "tile/integer_avx2.h"

static const struct integer_form q8_0_avx2 = {2, 128, 32, sizeof(skeep_block_q8_0)};

static inline void q8_0_unpack_avx2(const char *const *row, size_t groups, char *cells) {
  const __m256i nibble = _mm256_set1_epi8(15), flip = _mm256_set1_epi8((char)0x80);
  for (size_t g = 0; g < groups; g++, cells += CELL_BYTES(q8_0_avx2)) {
    const size_t at = g * sizeof(skeep_block_q8_0);
    _mm256_store_ps((float *)cells, rows_half(row, at));
    for (size_t h = 0; h < 2; h++) {
      __m256i q[4];
      rows_by_dword(row, at + offsetof(skeep_block_q8_0, qs) + 16 * h, q);
      for (int i = 0; i < 4; i++) {
        char *to = cells + CELL_CODES + 128 * h + 32 * i;
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(_mm256_xor_si256(q[i], flip), 4), nibble);
        _mm256_store_si256((__m256i *)to, _mm256_and_si256(q[i], nibble));
        _mm256_store_si256((__m256i *)(to + 256), high);
      }
    }
  }
}

/* |w| as the unsigned operand holds 128, and a, within [-127, 127], takes w's sign: 2 * 128 * 127 fits 16 bits. */
static inline __m256i q8_0_group_avx2(const char *const *row, size_t at, const char *a) {
  const __m256i x = _mm256_loadu_si256((const __m256i *)a);
  __m256i s[8];
  for (int i = 0; i < 8; i++) {
    const __m256i w = _mm256_loadu_si256((const __m256i *)(row[i] + at + offsetof(skeep_block_q8_0, qs)));
    s[i] = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)), _mm256_set1_epi16(1));
  }
  return rows_sum_i32(s);
}

void skeep_matmul_t_q8_0_a8_avx2(const struct skeep_matmul_tile *tile) {
  if (tile->tokens == 1) {
    const struct integer_form signed_codes = {2, 0, 32, sizeof(skeep_block_q8_0)};
    integer_one(tile, q8_0_group_avx2, signed_codes);
  } else {
    integer_many(tile, q8_0_unpack_avx2, q8_0_avx2);
  }
}
