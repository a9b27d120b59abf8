/* generated from csrc/kernels.def by go generate ./go/tensor:
 * portable, everything that is neither a product nor data movement. */
#include "internal.h"

#include "isa/portable.h"

#include "dense/vec_portable.h"
#include "dense/functions_template.h"
#include "dense/norm_template.h"
#include "dense/rope_template.h"
#include "dense/kv_store_template.h"
#include "dense/attend_template.h"
#include "dense/rowwise_template.h"

#include "isa/end.h"
