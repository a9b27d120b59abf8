/* code * d. */
#include "codes_avx2.h"

void skeep_decode_q8_0_avx2(const void *blocks, size_t count, float *out) {
  const skeep_block_q8_0 *b = blocks;
  for (size_t i = 0; i < count; i++, b++, out += 32) {
    const __m256 d = _mm256_set1_ps(skeep_f16_to_f32(b->d));
    skeep_codes16_avx2(skeep_load16(b->qs), d, out);
    skeep_codes16_avx2(skeep_load16(b->qs + 16), d, out + 16);
  }
}
