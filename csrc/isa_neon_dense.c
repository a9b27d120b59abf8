/* generated from csrc/kernels.def by go generate ./go/tensor:
 * neon, everything that is neither a product nor data movement. */
#include "internal.h"

#ifdef __aarch64__
#include "isa/neon.h"

#include "dense/vec_neon.h"
#include "dense/functions_template.h"
#include "dense/norm_template.h"
#include "dense/rope_template.h"
#include "dense/kv_store_template.h"
#include "dense/attend_template.h"
#include "dense/rowwise_template.h"

#include "isa/end.h"
#endif
