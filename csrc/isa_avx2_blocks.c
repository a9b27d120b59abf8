/* generated from csrc/kernels.def by go generate ./go/tensor:
 * avx2, decoders and encoders. */
#include "internal.h"

#ifdef __x86_64__
#include "isa/avx2.h"

#include "encodings/f16/decode_avx2.h"
#include "encodings/q4_0/decode_avx2.h"
#include "encodings/q5_0/decode_avx2.h"
#include "encodings/q8_0/decode_avx2.h"
#include "encodings/q4_k/decode_avx2.h"
#include "encodings/q6_k/decode_avx2.h"
#include "encodings/bf16/decode_avx2.h"
#include "encodings/f16/encode_avx2.h"
#include "dense/vec_avx2.h"
#include "dense/functions_template.h"
#include "search/affine_template.h"
#include "search/scaled_template.h"
#include "search/ternary_template.h"
#include "search/fp4_template.h"
#include "encodings/a8/quantize_rows_avx2.h"

#include "isa/end.h"
#endif
