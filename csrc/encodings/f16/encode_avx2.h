/* Rounded to the nearest half, ties to even. The instruction gives the same NaNs as the portable kernel. */
#include "codes_avx2.h"

void skeep_encode_f16_avx2(const float *in, size_t count, void *blocks) {
  const skeep_f32_any *x = in;
  char *y = blocks;
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128((__m128i *)(void *)(y + 2 * i),
                     _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(x + i)), _MM_FROUND_TO_NEAREST_INT));
  skeep_encode_f16_portable((const float *)(x + i), count - i, y + 2 * i);
}
