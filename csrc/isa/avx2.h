/* Begins a unit for x86-64 processors with AVX2, FMA and F16C. The pragma sets the target of every function below it,
 * so that no compiler flag is needed and other units are compiled for the baseline. */
#include <immintrin.h>
#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")
#endif
#define ISA_HAS_TARGET
