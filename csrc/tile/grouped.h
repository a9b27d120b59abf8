/* The encodings that the grouped products serve: one line here, and group.h of the form, is an encoding. The second
 * word is the instruction set of the fastest decoder on x86. */
#include "q4_1/group.h"
#include "q5_0/group.h"
#include "q5_1/group.h"
#include "q2_k/group.h"
#include "q3_k/group.h"
#include "q4_k/group.h"
#include "q5_k/group.h"
#include "q6_k/group.h"
#include "iq2_xxs/group.h"
#include "iq2_xs/group.h"
#include "iq2_s/group.h"
#include "iq3_xxs/group.h"
#include "iq3_s/group.h"
#include "iq1_s/group.h"
#include "iq1_m/group.h"
#include "iq4_nl/group.h"
#include "iq4_xs/group.h"
#include "tq1_0/group.h"
#include "tq2_0/group.h"
#include "mxfp4/group.h"
#include "nvfp4/group.h"
#include "q1_0/group.h"
#include "q2_0/group.h"

/* Codes that are bytes: products for x86 read panels of rows through panel.h of the form. */
#define EACH_PANELED(X) \
  X(q4_1, portable) \
  X(q5_0, avx2) \
  X(q5_1, portable) \
  X(q4_k, avx2) \
  X(q5_k, portable) \
  X(q6_k, avx2) \
  X(q2_k, portable) \
  X(q3_k, portable) \
  X(iq4_nl, portable) \
  X(iq4_xs, portable) \
  X(tq2_0, portable) \
  X(mxfp4, portable)

/* Other encodings, whose codes are put in words of 16 bits. */
#define EACH_WORDED(X) \
  X(iq2_xxs, portable) \
  X(iq2_xs, portable) \
  X(iq2_s, portable) \
  X(iq3_xxs, portable) \
  X(iq3_s, portable) \
  X(iq1_s, portable) \
  X(iq1_m, portable) \
  X(tq1_0, portable) \
  X(nvfp4, portable) \
  X(q1_0, portable) \
  X(q2_0, portable)

#define EACH_GROUPED(X) EACH_PANELED(X) EACH_WORDED(X)
