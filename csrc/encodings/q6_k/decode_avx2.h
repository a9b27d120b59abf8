/* d * scale * (code - 32), with a scale for each 16 elements. */
#include "codes_avx2.h"

void skeep_decode_q6_k_avx2(const void *blocks, size_t count, float *out) {
  const skeep_block_q6_k *b = blocks;
  const __m128i nibble = _mm_set1_epi8(15), two = _mm_set1_epi8(3), offset = _mm_set1_epi8(32);
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d);
    for (int g = 0; g < 16; g++, out += 16) {
      const int half = g / 8, quarter = g / 2 % 4, at = g % 2 * 16;
      const __m128i l = skeep_load16(b->ql + 64 * half + 32 * (quarter & 1) + at);
      const __m128i h = skeep_load16(b->qh + 32 * half + at);
      const __m128i low = _mm_and_si128(quarter >> 1 ? _mm_srli_epi16(l, 4) : l, nibble);
      const __m128i high = _mm_and_si128(_mm_srl_epi16(h, _mm_cvtsi32_si128(2 * quarter)), two);
      const __m128i codes = _mm_sub_epi8(_mm_or_si128(low, _mm_slli_epi16(high, 4)), offset);
      skeep_codes16_avx2(codes, _mm256_set1_ps(d * (float)b->scales[g]), out);
    }
  }
}
