/* generated from csrc/kernels.def by go generate ./go/tensor:
 * portable, products with A8 of encodings that are read by groups of 32. */
#include "internal.h"

#include "isa/portable.h"

#include "tile/integer_portable.h"
#include "encodings/q8_0/group.h"
GROUP_PRODUCT(q8_0)
#include "encodings/q4_0/group.h"
GROUP_PRODUCT(q4_0)
#include "encodings/q4_1/group.h"
GROUP_PRODUCT(q4_1)
#include "encodings/q5_0/group.h"
GROUP_PRODUCT(q5_0)
#include "encodings/q5_1/group.h"
GROUP_PRODUCT(q5_1)
#include "encodings/q2_k/group.h"
GROUP_PRODUCT(q2_k)
#include "encodings/q3_k/group.h"
GROUP_PRODUCT(q3_k)
#include "encodings/q4_k/group.h"
GROUP_PRODUCT(q4_k)
#include "encodings/q5_k/group.h"
GROUP_PRODUCT(q5_k)
#include "encodings/q6_k/group.h"
GROUP_PRODUCT(q6_k)
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
#include "encodings/iq4_nl/group.h"
GROUP_PRODUCT(iq4_nl)
#include "encodings/iq4_xs/group.h"
GROUP_PRODUCT(iq4_xs)
#include "encodings/tq1_0/group.h"
GROUP_PRODUCT(tq1_0)
#include "encodings/tq2_0/group.h"
GROUP_PRODUCT(tq2_0)
#include "encodings/mxfp4/group.h"
GROUP_PRODUCT(mxfp4)
#include "encodings/nvfp4/group.h"
GROUP_PRODUCT(nvfp4)
#include "encodings/q1_0/group.h"
GROUP_PRODUCT(q1_0)
#include "encodings/q2_0/group.h"
GROUP_PRODUCT(q2_0)
GROUP_PRODUCT_FEED(Q4_0, q4_0)
GROUP_PRODUCT_FEED(Q4_1, q4_1)
GROUP_PRODUCT_FEED(Q5_0, q5_0)
GROUP_PRODUCT_FEED(Q5_1, q5_1)
GROUP_PRODUCT_FEED(Q8_0, q8_0)
GROUP_PRODUCT_FEED(Q2_K, q2_k)
GROUP_PRODUCT_FEED(Q3_K, q3_k)
GROUP_PRODUCT_FEED(Q4_K, q4_k)
GROUP_PRODUCT_FEED(Q5_K, q5_k)
GROUP_PRODUCT_FEED(Q6_K, q6_k)
GROUP_PRODUCT_FEED(IQ4_NL, iq4_nl)
GROUP_PRODUCT_FEED(IQ4_XS, iq4_xs)
GROUP_PRODUCT_FEED(TQ2_0, tq2_0)
GROUP_PRODUCT_FEED(MXFP4, mxfp4)

#include "isa/end.h"
