/* generated from csrc/kernels.def by go generate ./go/tensor:
 * neon, decoders and encoders. */
#include "internal.h"

#ifdef __aarch64__
#include "isa/neon.h"

#include "dense/vec_neon.h"
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

#include "isa/end.h"
#endif
