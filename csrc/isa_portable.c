/* Kernel bodies in plain C11: the executable specification of every form, for any processor. */
#include "internal.h"

#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc does not contract under -std=c11, and warns about the pragma */
#endif

/* One #include per body, grouped by form: "q4_0/decode_portable.h". */
#include "f32/decode_portable.h"
#include "f16/decode_portable.h"
#include "q4_0/decode_portable.h"
#include "q4_1/decode_portable.h"
#include "q5_0/decode_portable.h"
#include "q5_1/decode_portable.h"
#include "q8_0/decode_portable.h"
#include "q8_1/decode_portable.h"
#include "q2_k/decode_portable.h"
#include "q3_k/decode_portable.h"
#include "q4_k/decode_portable.h"
#include "q5_k/decode_portable.h"
#include "q6_k/decode_portable.h"
#include "q8_k/decode_portable.h"
#include "iq2_xxs/decode_portable.h"
#include "iq2_xs/decode_portable.h"
#include "iq3_xxs/decode_portable.h"
#include "iq1_s/decode_portable.h"
#include "iq4_nl/decode_portable.h"
#include "iq3_s/decode_portable.h"
#include "iq2_s/decode_portable.h"
#include "iq4_xs/decode_portable.h"
#include "f64/decode_portable.h"
#include "iq1_m/decode_portable.h"
#include "bf16/decode_portable.h"
#include "tq1_0/decode_portable.h"
#include "tq2_0/decode_portable.h"
#include "mxfp4/decode_portable.h"
#include "nvfp4/decode_portable.h"
#include "q1_0/decode_portable.h"
#include "q2_0/decode_portable.h"
#include "a8/decode_portable.h"
#include "i8/decode_portable.h"
#include "i16/decode_portable.h"
#include "i32/decode_portable.h"
#include "i64/decode_portable.h"

#include "f32/encode_portable.h"
#include "f16/encode_portable.h"
#include "bf16/encode_portable.h"
#include "q4_0/encode_portable.h"
#include "q4_1/encode_portable.h"
#include "q5_0/encode_portable.h"
#include "q5_1/encode_portable.h"
#include "q8_0/encode_portable.h"

#include "a8/quantize_rows_portable.h"

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

#include "f32/matmul_t_portable.h"
#include "f16/matmul_t_portable.h"
#include "bf16/matmul_t_portable.h"
#include "q8_0/matmul_t_portable.h"
#include "q4_0/matmul_t_portable.h"
#include "tile/grouped_portable.h"
