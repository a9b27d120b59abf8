/* generated from csrc/kernels.def by go generate ./go/tensor:
 * avx2, products with F32. */
#include "internal.h"

#ifdef __x86_64__
#include "isa/avx2.h"

#include "encodings/f32/matmul_t_f32_avx2.h"
#include "encodings/f16/matmul_t_f32_avx2.h"
#include "encodings/bf16/matmul_t_f32_avx2.h"
#include "tile/exact_avx2.h"
DECODED_PRODUCT(q8_0, skeep_decode_q8_0_avx2)
DECODED_PRODUCT(q4_0, skeep_decode_q4_0_avx2)
DECODED_PRODUCT(q4_1, skeep_decode_q4_1_portable)
DECODED_PRODUCT(q5_0, skeep_decode_q5_0_avx2)
DECODED_PRODUCT(q5_1, skeep_decode_q5_1_portable)
DECODED_PRODUCT(q2_k, skeep_decode_q2_k_portable)
DECODED_PRODUCT(q3_k, skeep_decode_q3_k_portable)
DECODED_PRODUCT(q4_k, skeep_decode_q4_k_avx2)
DECODED_PRODUCT(q5_k, skeep_decode_q5_k_portable)
DECODED_PRODUCT(q6_k, skeep_decode_q6_k_avx2)
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
DECODED_PRODUCT_FEED(Q4_0, q4_0, skeep_decode_q4_0_avx2)
DECODED_PRODUCT_FEED(Q4_1, q4_1, skeep_decode_q4_1_portable)
DECODED_PRODUCT_FEED(Q5_0, q5_0, skeep_decode_q5_0_avx2)
DECODED_PRODUCT_FEED(Q5_1, q5_1, skeep_decode_q5_1_portable)
DECODED_PRODUCT_FEED(Q8_0, q8_0, skeep_decode_q8_0_avx2)
DECODED_PRODUCT_FEED(Q2_K, q2_k, skeep_decode_q2_k_portable)
DECODED_PRODUCT_FEED(Q3_K, q3_k, skeep_decode_q3_k_portable)
DECODED_PRODUCT_FEED(Q4_K, q4_k, skeep_decode_q4_k_avx2)
DECODED_PRODUCT_FEED(Q5_K, q5_k, skeep_decode_q5_k_portable)
DECODED_PRODUCT_FEED(Q6_K, q6_k, skeep_decode_q6_k_avx2)
DECODED_PRODUCT_FEED(IQ4_NL, iq4_nl, skeep_decode_iq4_nl_portable)
DECODED_PRODUCT_FEED(IQ4_XS, iq4_xs, skeep_decode_iq4_xs_portable)
DECODED_PRODUCT_FEED(TQ2_0, tq2_0, skeep_decode_tq2_0_portable)
DECODED_PRODUCT_FEED(MXFP4, mxfp4, skeep_decode_mxfp4_portable)

#include "isa/end.h"
#endif
