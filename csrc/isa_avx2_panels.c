/* generated from csrc/kernels.def by go generate ./go/tensor:
 * avx2, products with A8 of encodings whose rows are read side by side. */
#include "internal.h"

#ifdef __x86_64__
#include "isa/avx2.h"

#include "tile/panel_avx2.h"
#include "encodings/q8_0/panel.h"
PANEL_PRODUCT(q8_0)
#include "encodings/q4_0/panel.h"
PANEL_PRODUCT(q4_0)
#include "encodings/q4_1/panel.h"
PANEL_PRODUCT(q4_1)
#include "encodings/q5_0/panel.h"
PANEL_PRODUCT(q5_0)
#include "encodings/q5_1/panel.h"
PANEL_PRODUCT(q5_1)
#include "encodings/q2_k/panel.h"
PANEL_PRODUCT(q2_k)
#include "encodings/q3_k/panel.h"
PANEL_PRODUCT(q3_k)
#include "encodings/q4_k/panel.h"
PANEL_PRODUCT(q4_k)
#include "encodings/q5_k/panel.h"
PANEL_PRODUCT(q5_k)
#include "encodings/q6_k/panel.h"
PANEL_PRODUCT(q6_k)
#include "encodings/iq4_nl/panel.h"
PANEL_PRODUCT(iq4_nl)
#include "encodings/iq4_xs/panel.h"
PANEL_PRODUCT(iq4_xs)
#include "encodings/tq2_0/panel.h"
PANEL_PRODUCT(tq2_0)
#include "encodings/mxfp4/panel.h"
PANEL_PRODUCT(mxfp4)

#include "isa/end.h"
#endif
