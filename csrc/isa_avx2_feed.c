/* generated from csrc/kernels.def by go generate ./go/tensor:
 * avx2, products with A8 in feed order. */
#include "internal.h"

#ifdef __x86_64__
#include "isa/avx2.h"

#include "tile/panel_avx2.h"
#include "encodings/q4_0/panel.h"
PANEL_PRODUCT_FEED(Q4_0, q4_0)
#include "encodings/q4_1/panel.h"
PANEL_PRODUCT_FEED(Q4_1, q4_1)
#include "encodings/q5_0/panel.h"
PANEL_PRODUCT_FEED(Q5_0, q5_0)
#include "encodings/q5_1/panel.h"
PANEL_PRODUCT_FEED(Q5_1, q5_1)
#include "encodings/q8_0/panel.h"
PANEL_PRODUCT_FEED(Q8_0, q8_0)
#include "encodings/q2_k/panel.h"
PANEL_PRODUCT_FEED(Q2_K, q2_k)
#include "encodings/q3_k/panel.h"
PANEL_PRODUCT_FEED(Q3_K, q3_k)
#include "encodings/q4_k/panel.h"
PANEL_PRODUCT_FEED(Q4_K, q4_k)
#include "encodings/q5_k/panel.h"
PANEL_PRODUCT_FEED(Q5_K, q5_k)
#include "encodings/q6_k/panel.h"
PANEL_PRODUCT_FEED(Q6_K, q6_k)
#include "encodings/iq4_nl/panel.h"
PANEL_PRODUCT_FEED(IQ4_NL, iq4_nl)
#include "encodings/iq4_xs/panel.h"
PANEL_PRODUCT_FEED(IQ4_XS, iq4_xs)
#include "encodings/tq2_0/panel.h"
PANEL_PRODUCT_FEED(TQ2_0, tq2_0)
#include "encodings/mxfp4/panel.h"
PANEL_PRODUCT_FEED(MXFP4, mxfp4)

#include "isa/end.h"
#endif
