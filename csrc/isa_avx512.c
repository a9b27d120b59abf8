/* Kernel bodies for x86-64 processors with AVX-512 F, BW, VL, DQ, VNNI and VBMI (and what AVX2 units use). */
#include "internal.h"

#if defined(__x86_64__)
#include <math.h>
#ifdef SKEEP_EMULATE_AVX512
#include "emulate_avx512.h"
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

#include "tile/products_avx512.h"

#include "generated/bodies_avx512.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
