/* IEEE half. The conversion instruction would set the quiet bit of signaling NaNs, so eight halves with a NaN among
 * them are converted by the portable function, which keeps every bit. */
#include "codes_avx2.h"

void skeep_decode_f16_avx2(const void *blocks, size_t count, float *out) {
  const char *x = blocks;
  skeep_f32_any *y = out;
  const __m128i magnitude = _mm_set1_epi16(0x7fff), infinity = _mm_set1_epi16(0x7c00);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i h = skeep_load16(x + 2 * i);
    if (_mm_movemask_epi8(_mm_cmpgt_epi16(_mm_and_si128(h, magnitude), infinity)))
      skeep_decode_f16_portable(x + 2 * i, 8, (float *)(y + i));
    else
      _mm256_storeu_ps((float *)(y + i), _mm256_cvtph_ps(h));
  }
  skeep_decode_f16_portable(x + 2 * i, count - i, (float *)(y + i));
}
