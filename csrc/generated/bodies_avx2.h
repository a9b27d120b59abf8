/* generated from csrc/kernels.def by go generate ./go/tensor: the bodies of isa_avx2.c. */
#include "encodings/f16/decode_avx2.h"
#include "encodings/q4_0/decode_avx2.h"
#include "encodings/q5_0/decode_avx2.h"
#include "encodings/q8_0/decode_avx2.h"
#include "encodings/q4_k/decode_avx2.h"
#include "encodings/q6_k/decode_avx2.h"
#include "encodings/bf16/decode_avx2.h"
#include "encodings/f16/encode_avx2.h"
#include "encodings/a8/quantize_rows_avx2.h"
#include "encodings/f32/matmul_t_avx2.h"
#include "encodings/f16/matmul_t_avx2.h"
#include "encodings/bf16/matmul_t_avx2.h"
#include "encodings/q8_0/matmul_t_avx2.h"
#include "encodings/q4_0/matmul_t_avx2.h"
#include "encodings/q4_1/panel.h"
PANEL_PRODUCT(q4_1)
DECODED_PRODUCT(q4_1, skeep_decode_q4_1_portable)
#include "encodings/q5_0/panel.h"
PANEL_PRODUCT(q5_0)
DECODED_PRODUCT(q5_0, skeep_decode_q5_0_avx2)
#include "encodings/q5_1/panel.h"
PANEL_PRODUCT(q5_1)
DECODED_PRODUCT(q5_1, skeep_decode_q5_1_portable)
#include "encodings/q2_k/panel.h"
PANEL_PRODUCT(q2_k)
DECODED_PRODUCT(q2_k, skeep_decode_q2_k_portable)
#include "encodings/q3_k/panel.h"
PANEL_PRODUCT(q3_k)
DECODED_PRODUCT(q3_k, skeep_decode_q3_k_portable)
#include "encodings/q4_k/panel.h"
PANEL_PRODUCT(q4_k)
DECODED_PRODUCT(q4_k, skeep_decode_q4_k_avx2)
#include "encodings/q5_k/panel.h"
PANEL_PRODUCT(q5_k)
DECODED_PRODUCT(q5_k, skeep_decode_q5_k_portable)
#include "encodings/q6_k/panel.h"
PANEL_PRODUCT(q6_k)
DECODED_PRODUCT(q6_k, skeep_decode_q6_k_avx2)
#include "encodings/iq2_xxs/group.h"
GROUP_PRODUCT(iq2_xxs)
DECODED_PRODUCT(iq2_xxs, skeep_decode_iq2_xxs_portable)
#include "encodings/iq2_xs/group.h"
GROUP_PRODUCT(iq2_xs)
DECODED_PRODUCT(iq2_xs, skeep_decode_iq2_xs_portable)
#include "encodings/iq2_s/group.h"
GROUP_PRODUCT(iq2_s)
DECODED_PRODUCT(iq2_s, skeep_decode_iq2_s_portable)
#include "encodings/iq3_xxs/group.h"
GROUP_PRODUCT(iq3_xxs)
DECODED_PRODUCT(iq3_xxs, skeep_decode_iq3_xxs_portable)
#include "encodings/iq3_s/group.h"
GROUP_PRODUCT(iq3_s)
DECODED_PRODUCT(iq3_s, skeep_decode_iq3_s_portable)
#include "encodings/iq1_s/group.h"
GROUP_PRODUCT(iq1_s)
DECODED_PRODUCT(iq1_s, skeep_decode_iq1_s_portable)
#include "encodings/iq1_m/group.h"
GROUP_PRODUCT(iq1_m)
DECODED_PRODUCT(iq1_m, skeep_decode_iq1_m_portable)
#include "encodings/iq4_nl/panel.h"
PANEL_PRODUCT(iq4_nl)
DECODED_PRODUCT(iq4_nl, skeep_decode_iq4_nl_portable)
#include "encodings/iq4_xs/panel.h"
PANEL_PRODUCT(iq4_xs)
DECODED_PRODUCT(iq4_xs, skeep_decode_iq4_xs_portable)
#include "encodings/tq1_0/group.h"
GROUP_PRODUCT(tq1_0)
DECODED_PRODUCT(tq1_0, skeep_decode_tq1_0_portable)
#include "encodings/tq2_0/panel.h"
PANEL_PRODUCT(tq2_0)
DECODED_PRODUCT(tq2_0, skeep_decode_tq2_0_portable)
#include "encodings/mxfp4/panel.h"
PANEL_PRODUCT(mxfp4)
DECODED_PRODUCT(mxfp4, skeep_decode_mxfp4_portable)
#include "encodings/nvfp4/group.h"
GROUP_PRODUCT(nvfp4)
DECODED_PRODUCT(nvfp4, skeep_decode_nvfp4_portable)
#include "encodings/q1_0/group.h"
GROUP_PRODUCT(q1_0)
DECODED_PRODUCT(q1_0, skeep_decode_q1_0_portable)
#include "encodings/q2_0/group.h"
GROUP_PRODUCT(q2_0)
DECODED_PRODUCT(q2_0, skeep_decode_q2_0_portable)
