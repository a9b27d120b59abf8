/* Kernel bodies in plain C11: the executable specification of every form, for any processor. */
#include "internal.h"

#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc does not contract under -std=c11, and warns about the pragma */
#endif

/* The dense bodies are written over eight lanes and compiled for each instruction set. */
#include "dense/vec_portable.h"
#include "dense/functions.h"
#include "dense/norm.h"
#include "dense/rowwise.h"
#include "dense/rope.h"
#include "dense/kv_store.h"
#include "dense/attend.h"

/* So are the encoders that search. */
#include "search/scaled.h"
#include "search/affine.h"
#include "search/ternary.h"
#include "search/fp4.h"

#include "tile/products_portable.h"

#include "generated/bodies_portable.h"
