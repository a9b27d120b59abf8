/* (code - 16) * d. */
#include "codes_avx2.h"

void skeep_decode_q5_0_avx2(const void *blocks, size_t count, float *out) {
  const skeep_block_q5_0 *b = blocks;
  const __m128i nibble = _mm_set1_epi8(15), bit = _mm_set1_epi64x((long long)0x8040201008040201ull);
  const __m128i spread = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  for (size_t i = 0; i < count; i++, b++, out += 32) {
    const __m256 d = _mm256_set1_ps(skeep_f16_to_f32(b->d));
    const __m128i q = skeep_load16(b->qs);
    for (int half = 0; half < 2; half++) {
      /* Subtracts 16 from the nibble where the fifth bit is clear: there the byte differs from the bit it is tested
       * for. */
      const __m128i h = _mm_shuffle_epi8(_mm_cvtsi32_si128((int)(b->qh >> 16 * half)), spread);
      const __m128i clear = _mm_andnot_si128(_mm_cmpeq_epi8(_mm_and_si128(h, bit), bit), _mm_set1_epi8(-16));
      const __m128i low = _mm_and_si128(half ? _mm_srli_epi16(q, 4) : q, nibble);
      skeep_codes16_avx2(_mm_or_si128(low, clear), d, out + 16 * half);
    }
  }
}
