/* Formats of E2M1 codes under a scale that is a byte: MXFP4 (a power of two) and NVFP4 (UE4M3).
 *
 * The scales are so few that those around the one at which the largest element is the largest code are all tried, with
 * the nearest codes of each. A scale of these formats cannot say "not a number": callers refuse such input, and NVFP4
 * also what is larger than 6 * 448. */
#ifndef SKEEP_SHARED_E2M1_ENCODE_H
#define SKEEP_SHARED_E2M1_ENCODE_H

#include "search/scaled_template.h"

/* The values of E2M1, doubled, in ascending order, and the code of each. */
static const struct scaled_codes codes_e2m1 = {
    -12, 12, 15, {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12},
    {-10, -7, -5, -3.5f, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10}};
static const uint8_t e2m1_code[15] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7};

#endif
