/* Codebooks: tables of the values that encodings with indices refer to. Each byte of an entry is one element, the
 * lowest byte element 0, so that kernels can load an entry as it is. */
#ifndef SKEEP_CODEBOOKS_H
#define SKEEP_CODEBOOKS_H

#include <stdint.h>

/* Eight magnitudes of {8, 25, 43}. */
extern const uint64_t skeep_grid_iq2_xxs[256];
extern const uint64_t skeep_grid_iq2_xs[512];
extern const uint64_t skeep_grid_iq2_s[1024];
/* Eight values of {-1, 0, 1} as signed bytes; serves IQ1_S and IQ1_M. */
extern const uint64_t skeep_grid_iq1_s[2048];
/* Four magnitudes of {4, 12, 20, 28, 36, 44, 52, 62}. */
extern const uint32_t skeep_grid_iq3_xxs[256];
/* Four magnitudes of {1, 3, ... 15}. */
extern const uint32_t skeep_grid_iq3_s[512];
/* The sign byte (bit j set = element j negative) of a seven-bit sign index: the index itself, its parity on top,
 * so that an even number of signs is set. */
extern const uint8_t skeep_signs[128];
/* The sixteen values of IQ4_NL and IQ4_XS. */
extern const int8_t skeep_values_iq4_nl[16];
/* Twice the values of E2M1 (two exponent bits, one of mantissa), which makes them integers; MXFP4 and NVFP4. */
extern const int8_t skeep_values_e2m1[16];

#endif
