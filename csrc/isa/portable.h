/* Begins a unit in plain C11, for any processor. Its kernels are the specification of all others. */
#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* gcc does not contract under -std=c11, and warns about the pragma */
#endif
