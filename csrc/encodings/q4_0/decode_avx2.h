/* (code - 8) * d. */
#include "codes_avx2.h"

void skeep_decode_q4_0_avx2(const void *blocks, size_t count, float *out) {
  const skeep_block_q4_0 *b = blocks;
  const __m128i nibble = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
  for (size_t i = 0; i < count; i++, b++, out += 32) {
    const __m256 d = _mm256_set1_ps(skeep_f16_to_f32(b->d));
    const __m128i q = skeep_load16(b->qs);
    skeep_codes16_avx2(_mm_sub_epi8(_mm_and_si128(q, nibble), eight), d, out);
    skeep_codes16_avx2(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(q, 4), nibble), eight), d, out + 16);
  }
}
