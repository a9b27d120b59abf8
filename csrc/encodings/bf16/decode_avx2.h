/* A bfloat16 is the upper half of a float. */
#include "codes_avx2.h"

void skeep_decode_bf16_avx2(const void *blocks, size_t count, float *out) {
  const char *x = blocks;
  skeep_f32_any *y = out;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(skeep_load16(x + 2 * i)), 16);
    _mm256_storeu_si256((__m256i *)(void *)(y + i), bits);
  }
  skeep_decode_bf16_portable(x + 2 * i, count - i, (float *)(y + i));
}
