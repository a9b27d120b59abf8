/* Multiplications of 8-bit integers in registers, AVX2. */
#include "internal.h"
#include "measure.h"

#ifdef __x86_64__
#include "isa/avx2.h"

/* Four chains, in each four vpmaddubsw, added in 16 bits, and one vpmaddwd. An empty asm statement makes the compiler
 * believe that the operands are others each time. */
void skeep_multiply_avx2(uint64_t rounds) {
  __m256i sum[4], u = _mm256_set1_epi8(3), w = _mm256_set1_epi8(2);
  const __m256i one = _mm256_set1_epi16(1);
  for (int i = 0; i < 4; i++) sum[i] = _mm256_setzero_si256();
  for (uint64_t r = 0; r < rounds; r++)
    for (int i = 0; i < 4; i++) {
      __m256i p = _mm256_maddubs_epi16(u, w);
      for (int k = 1; k < 4; k++) {
        __asm__ volatile("" : "+x"(u), "+x"(w));
        p = _mm256_add_epi16(p, _mm256_maddubs_epi16(u, w));
      }
      __asm__ volatile("" : "+x"(u), "+x"(w));
      sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(p, one));
    }
  volatile __m256i kept = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  (void)kept;
}

#include "isa/end.h"
#endif
