/* Kernel bodies in plain C11: the executable specification of every form, for any processor. */
#include "internal.h"

#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc does not contract under -std=c11, and warns about the pragma */
#endif

/* One #include per body, grouped by form: "q4_0/decode_portable.h". */
