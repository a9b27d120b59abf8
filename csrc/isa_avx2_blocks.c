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
#include "encodings/q2_k/encode.h"
#include "encodings/q3_k/encode.h"
#include "encodings/q4_k/encode.h"
#include "encodings/q5_k/encode.h"
#include "encodings/q6_k/encode.h"
#include "encodings/iq4_nl/encode.h"
#include "encodings/iq4_xs/encode.h"
#include "encodings/tq1_0/encode.h"
#include "encodings/tq2_0/encode.h"
#include "encodings/mxfp4/encode.h"
#include "encodings/nvfp4/encode.h"
#include "encodings/q1_0/encode.h"
#include "encodings/q2_0/encode.h"
#include "encodings/a8/quantize_rows_avx2.h"

#include "isa/end.h"
#endif
