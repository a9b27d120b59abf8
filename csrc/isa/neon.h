/* Begins a unit for arm64: Advanced SIMD belongs to the baseline. */
#include <arm_neon.h>
#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
