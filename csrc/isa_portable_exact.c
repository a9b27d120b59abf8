/* generated from csrc/kernels.def by go generate ./go/tensor:
 * portable, products with F32. */
#include "internal.h"

#include "isa/portable.h"

#include "tile/exact_portable.h"
DECODED_PRODUCT(f32, skeep_decode_f32_portable)
DECODED_PRODUCT(f16, skeep_decode_f16_portable)
DECODED_PRODUCT(bf16, skeep_decode_bf16_portable)
DECODED_PRODUCT(q8_0, skeep_decode_q8_0_portable)
DECODED_PRODUCT(q4_0, skeep_decode_q4_0_portable)
DECODED_PRODUCT(q4_1, skeep_decode_q4_1_portable)
DECODED_PRODUCT(q5_0, skeep_decode_q5_0_portable)
DECODED_PRODUCT(q5_1, skeep_decode_q5_1_portable)
DECODED_PRODUCT(q2_k, skeep_decode_q2_k_portable)
DECODED_PRODUCT(q3_k, skeep_decode_q3_k_portable)
DECODED_PRODUCT(q4_k, skeep_decode_q4_k_portable)
DECODED_PRODUCT(q5_k, skeep_decode_q5_k_portable)
DECODED_PRODUCT(q6_k, skeep_decode_q6_k_portable)
DECODED_PRODUCT(iq2_xxs, skeep_decode_iq2_xxs_portable)
DECODED_PRODUCT(iq2_xs, skeep_decode_iq2_xs_portable)
DECODED_PRODUCT(iq2_s, skeep_decode_iq2_s_portable)
DECODED_PRODUCT(iq3_xxs, skeep_decode_iq3_xxs_portable)
DECODED_PRODUCT(iq3_s, skeep_decode_iq3_s_portable)
DECODED_PRODUCT(iq1_s, skeep_decode_iq1_s_portable)
DECODED_PRODUCT(iq1_m, skeep_decode_iq1_m_portable)
DECODED_PRODUCT(iq4_nl, skeep_decode_iq4_nl_portable)
DECODED_PRODUCT(iq4_xs, skeep_decode_iq4_xs_portable)
DECODED_PRODUCT(tq1_0, skeep_decode_tq1_0_portable)
DECODED_PRODUCT(tq2_0, skeep_decode_tq2_0_portable)
DECODED_PRODUCT(mxfp4, skeep_decode_mxfp4_portable)
DECODED_PRODUCT(nvfp4, skeep_decode_nvfp4_portable)
DECODED_PRODUCT(q1_0, skeep_decode_q1_0_portable)
DECODED_PRODUCT(q2_0, skeep_decode_q2_0_portable)

#include "isa/end.h"
