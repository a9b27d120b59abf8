/* Kernel bodies for arm64: first those of the Advanced SIMD baseline (isa NEON in kernels.def), then those
 * that need dot products (NEON_DOTPROD), then those that need the 8-bit matrix product (NEON_I8MM). */
#include "internal.h"

#if defined(__aarch64__)
#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#if __clang_major__ < 16 && !defined(__ARM_FEATURE_DOTPROD)
/* Before release 16, arm_neon.h hides these intrinsics behind the macros of -march. The wrappers are always
 * inlined into the functions below, which do have the target. */
#define __ARM_FEATURE_DOTPROD 1
#endif
#if __clang_major__ < 16 && !defined(__ARM_FEATURE_MATMUL_INT8)
#define __ARM_FEATURE_MATMUL_INT8 1
#endif
#endif
#include <arm_neon.h>

/* ---- baseline: one #include per body ---- */

/* The dense bodies are written over eight lanes and compiled for each instruction set. */
#include "dense/vec_neon.h"
#include "dense/functions_template.h"
#include "dense/norm_template.h"
#include "dense/rowwise_template.h"
#include "dense/rope_template.h"
#include "dense/kv_store_template.h"
#include "dense/attend_template.h"

/* So are the encoders that search. */
#include "search/scaled_template.h"
#include "search/affine_template.h"
#include "search/ternary_template.h"
#include "search/fp4_template.h"


#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

/* ---- NEON_DOTPROD: one #include per body ---- */

#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("dotprod,i8mm"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#endif

/* ---- NEON_I8MM: one #include per body ---- */

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
