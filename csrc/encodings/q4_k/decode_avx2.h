/* d * scale * code - dmin * min, with scale and min for each 32 elements. */
#include "codes_avx2.h"

void skeep_decode_q4_k_avx2(const void *blocks, size_t count, float *out) {
  const skeep_block_q4_k *b = blocks;
  const __m128i nibble = _mm_set1_epi8(15);
  for (size_t i = 0; i < count; i++, b++) {
    const float d = skeep_f16_to_f32(b->d), dmin = skeep_f16_to_f32(b->dmin);
    for (uint32_t g = 0; g < 8; g++, out += 32) {
      const __m256 scale = _mm256_set1_ps(d * (float)skeep_k4_scale(b->scales, g));
      const __m256 min = _mm256_set1_ps(dmin * (float)skeep_k4_min(b->scales, g));
      for (uint32_t at = 0; at < 32; at += 16) {
        const __m128i q = skeep_load16(b->qs + g / 2 * 32 + at);
        skeep_codes16_min_avx2(_mm_and_si128(g % 2 ? _mm_srli_epi16(q, 4) : q, nibble), scale, min, out + at);
      }
    }
  }
}
