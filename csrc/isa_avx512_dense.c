/* generated from csrc/kernels.def by go generate ./go/tensor:
 * avx512, everything that is neither a product nor data movement. */
#include "internal.h"

#ifdef __x86_64__
#include "isa/avx512.h"

#include "dense/vec_avx512.h"
#include "dense/functions_template.h"
#include "dense/attend_template.h"

#include "isa/end.h"
#endif
