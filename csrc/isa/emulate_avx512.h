/* AVX-512 by SIMDe (https://github.com/simd-everywhere/simde, used with 0.7.4) in place of <immintrin.h>, so that tests
 * can run the AVX-512 kernels on processors that only have AVX2. It is included with -DSKEEP_EMULATE_AVX512, which no
 * normal build sets: vectors are pairs of 256 bits or loops over lanes, several times slower. It begins the target of
 * the unit, which the functions of SIMDe need, too; isa/end.h ends it. */
#ifndef SKEEP_EMULATE_AVX512_H
#define SKEEP_EMULATE_AVX512_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define TARGET "no-avx512f,avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt"
#pragma clang attribute push(__attribute__((target(TARGET))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("no-avx512f,avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")
#endif

/* What SIMDe may use of the processor. It would look at macros, but clang's target pragma defines none. */
#define SIMDE_NO_NATIVE
#define SIMDE_X86_AVX2_NATIVE
#define SIMDE_X86_FMA_NATIVE
#define SIMDE_X86_F16C_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* What SIMDe 0.7.4 lacks. Under names of our own, as a later one may have it. */
#define EMULATED static inline __attribute__((always_inline))
typedef uint8_t emulated_u8 __attribute__((vector_size(16)));
typedef uint16_t emulated_u16 __attribute__((vector_size(32)));
typedef uint32_t emulated_u32 __attribute__((vector_size(64)));
typedef int32_t emulated_i32 __attribute__((vector_size(64)));

EMULATED __m512 emulated_cvtepi32_ps(__m512i a) { return __builtin_convertvector((emulated_i32)a, __m512); }
EMULATED __m512i emulated_cvtepu16_epi32(__m256i a) {
  return (__m512i)__builtin_convertvector((emulated_u16)a, emulated_u32);
}
EMULATED __m512i emulated_cvtepu8_epi32(__m128i a) {
  return (__m512i)__builtin_convertvector((emulated_u8)a, emulated_u32);
}
EMULATED __m256i emulated_cvtepi32_epi16(__m512i a) {
  return (__m256i)__builtin_convertvector((emulated_u32)a, emulated_u16);
}
EMULATED __m256 emulated_extractf32x8_ps(__m512 a, int half) {
  __m256 halves[2];
  memcpy(halves, &a, sizeof a);
  return halves[half];
}
EMULATED __m512 emulated_shuffle_f32x4(__m512 a, __m512 b, int which) {
  __m128 of_a[4], of_b[4];
  memcpy(of_a, &a, sizeof a), memcpy(of_b, &b, sizeof b);
  const __m128 quarters[4] = {of_a[which & 3], of_a[which >> 2 & 3], of_b[which >> 4 & 3], of_b[which >> 6 & 3]};
  __m512 out;
  memcpy(&out, quarters, sizeof out);
  return out;
}
EMULATED __m512 emulated_cvtph_ps(__m256i a) {
  const __m128i low = _mm256_castsi256_si128(a), high = _mm256_extracti128_si256(a, 1);
  const __m256 halves[2] = {_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)};
  __m512 out;
  memcpy(&out, halves, sizeof out);
  return out;
}

/* Lanes without a bit in the mask are not touched in memory. */
EMULATED __m512 emulated_maskz_loadu_ps(__mmask16 mask, const void *p) {
  float v[16] = {0};
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) memcpy(&v[i], (const char *)p + 4 * i, 4);
  return _mm512_loadu_ps(v);
}
EMULATED __m256i emulated_maskz_loadu_epi16(__mmask16 mask, const void *p) {
  uint16_t v[16] = {0};
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) memcpy(&v[i], (const char *)p + 2 * i, 2);
  return _mm256_loadu_si256((const __m256i *)v);
}
EMULATED void emulated_mask_storeu_ps(void *p, __mmask16 mask, __m512 a) {
  float v[16];
  _mm512_storeu_ps(v, a);
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) memcpy((char *)p + 4 * i, &v[i], 4);
}
#undef EMULATED

/* SIMDe 0.7.4 gives it the parameters of the masked form. */
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 simde_mm512_madd_epi16

#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 emulated_cvtepi32_epi16
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps emulated_extractf32x8_ps
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 emulated_shuffle_f32x4
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps emulated_cvtph_ps
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 emulated_maskz_loadu_epi16
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps

#endif
