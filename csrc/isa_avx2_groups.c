/* generated from csrc/kernels.def by go generate ./go/tensor:
 * avx2, products with A8 of encodings that are read by groups of 32. */
#include "internal.h"

#ifdef __x86_64__
#include "isa/avx2.h"

#include "tile/int16_avx2.h"
#include "encodings/iq2_xxs/group.h"
GROUP_PRODUCT(iq2_xxs)
#include "encodings/iq2_xs/group.h"
GROUP_PRODUCT(iq2_xs)
#include "encodings/iq2_s/group.h"
GROUP_PRODUCT(iq2_s)
#include "encodings/iq3_xxs/group.h"
GROUP_PRODUCT(iq3_xxs)
#include "encodings/iq3_s/group.h"
GROUP_PRODUCT(iq3_s)
#include "encodings/iq1_s/group.h"
GROUP_PRODUCT(iq1_s)
#include "encodings/iq1_m/group.h"
GROUP_PRODUCT(iq1_m)
#include "encodings/tq1_0/group.h"
GROUP_PRODUCT(tq1_0)
#include "encodings/nvfp4/group.h"
GROUP_PRODUCT(nvfp4)
#include "encodings/q1_0/group.h"
GROUP_PRODUCT(q1_0)
#include "encodings/q2_0/group.h"
GROUP_PRODUCT(q2_0)

#include "isa/end.h"
#endif
