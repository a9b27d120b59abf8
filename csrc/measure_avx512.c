/* Multiplications of 8-bit integers in registers, AVX-512. */
#include "internal.h"
#include "measure.h"

#ifdef __x86_64__
#include "isa/avx512.h"

/* Twelve chains of vpdpbusd, more than its latency times how many of them begin in a cycle. */
void skeep_multiply_avx512(uint64_t rounds) {
  __m512i sum[12];
  const __m512i u = _mm512_set1_epi8(3), w = _mm512_set1_epi8(2);
  for (int i = 0; i < 12; i++) sum[i] = _mm512_set1_epi32(i);
  for (uint64_t r = 0; r < rounds; r++)
    for (int i = 0; i < 12; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], u, w);
  for (int i = 1; i < 12; i++) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  volatile __m512i kept = sum[0];
  (void)kept;
}

#include "isa/end.h"
#endif
