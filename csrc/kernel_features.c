/* Which instruction sets may be used: what the processor has, the operating system saves, and SKEEP_ISA allows. */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <sys/auxv.h>
#endif

static uint32_t features;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
static uint32_t processor(void) {
  uint32_t found = SKEEP_FEATURE_PORTABLE, a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const uint32_t need1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_POPCNT;
  if ((c & need1) != need1) return found;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 0x6u) != 0x6u) return found; /* XCR0: xmm and upper ymm halves are saved */
  uint32_t extended;
  if (!__get_cpuid(0x80000001u, &a, &b, &extended, &d) || !(extended & bit_LZCNT)) return found;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  const uint32_t need2 = bit_AVX2 | bit_BMI | bit_BMI2;
  if ((b & need2) != need2) return found;
  found |= SKEEP_FEATURE_AVX2;
#ifdef SKEEP_EMULATE_AVX512
  return found | SKEEP_FEATURE_AVX512;
#endif
  if ((low & 0xe0u) != 0xe0u) return found; /* mask registers, upper zmm halves, zmm16-31 */
  const uint32_t need3 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
  if ((b & need3) != need3) return found;
  const uint32_t need4 = bit_AVX512VNNI | bit_AVX512VBMI;
  if ((c & need4) != need4) return found;
  return found | SKEEP_FEATURE_AVX512;
}
#else
static uint32_t processor(void) {
  uint32_t found = SKEEP_FEATURE_PORTABLE | SKEEP_FEATURE_NEON; /* Advanced SIMD is part of the arm64 baseline */
  const unsigned long dotprod = 1ul << 20, i8mm = 1ul << 13; /* HWCAP_ASIMDDP, HWCAP2_I8MM */
  if (getauxval(AT_HWCAP) & dotprod) {
    found |= SKEEP_FEATURE_NEON_DOTPROD;
    if (getauxval(AT_HWCAP2) & i8mm) found |= SKEEP_FEATURE_NEON_I8MM;
  }
  return found;
}
#endif

/* The features that each value of SKEEP_ISA allows, those of lower instruction sets included. */
static const struct {
  const char *name;
  uint32_t allowed;
} tiers[] = {
    [SKEEP_ISA_PORTABLE] = {"portable", SKEEP_FEATURE_PORTABLE},
    [SKEEP_ISA_AVX2] = {"avx2", SKEEP_FEATURE_PORTABLE | SKEEP_FEATURE_AVX2},
    [SKEEP_ISA_AVX512] = {"avx512", SKEEP_FEATURE_PORTABLE | SKEEP_FEATURE_AVX2 | SKEEP_FEATURE_AVX512},
    [SKEEP_ISA_NEON] = {"neon", SKEEP_FEATURE_PORTABLE | SKEEP_FEATURE_NEON | SKEEP_FEATURE_NEON_DOTPROD |
                                    SKEEP_FEATURE_NEON_I8MM},
};
#define TIERS (sizeof tiers / sizeof tiers[0])

static void detect(void) {
  features = processor();
  const char *word = getenv("SKEEP_ISA");
  if (!word) return;
  for (size_t i = 0; i < TIERS; i++)
    if (!strcmp(word, tiers[i].name)) features &= tiers[i].allowed;
}

uint32_t skeep_features(void) {
  pthread_once(&once, detect);
  return features;
}

uint32_t skeep_isa(void) {
  const uint32_t f = skeep_features();
  if (f & SKEEP_FEATURE_AVX512) return SKEEP_ISA_AVX512;
  if (f & SKEEP_FEATURE_AVX2) return SKEEP_ISA_AVX2;
  if (f & SKEEP_FEATURE_NEON) return SKEEP_ISA_NEON;
  return SKEEP_ISA_PORTABLE;
}

const char *skeep_isa_name(uint32_t isa) { return isa < TIERS ? tiers[isa].name : "unknown"; }
