/* generated from csrc/kernels.def by go generate ./go/tensor:
 * neon, decoders and encoders. */
#include "internal.h"

#ifdef __aarch64__
#include "isa/neon.h"

#include "dense/vec_neon.h"
#include "dense/functions_template.h"
#include "search/affine_template.h"
#include "search/scaled_template.h"
#include "search/ternary_template.h"
#include "search/fp4_template.h"

#include "isa/end.h"
#endif
