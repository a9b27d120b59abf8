/* Kernel bodies in plain C11: the executable specification of every form, for any processor. */
#include "internal.h"

#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc does not contract under -std=c11, and warns about the pragma */
#endif

/* The dense bodies are written over eight lanes and compiled for each instruction set. */
#include "dense/vec_portable.h"
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

#include "tile/products_portable.h"

#include "generated/bodies_portable.h"
