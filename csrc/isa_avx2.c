/* Kernel bodies for x86-64 processors with AVX2, FMA and F16C. The pragma gives the target to every
 * function below it, so that no compiler flag is needed and the other units stay at the baseline. */
#include "internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")
#endif

/* The dense bodies are written over eight lanes and compiled for each instruction set. */
#include "dense/vec_avx2.h"
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

#include "tile/products_avx2.h"

#include "generated/bodies_avx2.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
