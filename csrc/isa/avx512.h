/* Begins a unit for x86-64 processors with AVX-512 F, BW, VL, DQ, VNNI and VBMI (and what AVX2 units use). */
#include <math.h>
#ifdef SKEEP_EMULATE_AVX512
#include "isa/emulate_avx512.h"
#else
#include <immintrin.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define TARGET "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt"
#pragma clang attribute push(__attribute__((target(TARGET))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")
#endif
#endif
#define ISA_HAS_TARGET
