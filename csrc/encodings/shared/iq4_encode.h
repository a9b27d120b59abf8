/* What IQ4_NL and IQ4_XS share when they are encoded. */
#ifndef SKEEP_SHARED_IQ4_ENCODE_H
#define SKEEP_SHARED_IQ4_ENCODE_H

#include "search/scaled_template.h"

/* The sixteen values of a codebook. */
static const struct scaled_codes codes_iq4 = {
    -127, 113, 16,
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    {-115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79, 101}};
static const struct scaled_search how_iq4 = {{-127, 113}, 4, 8};

#endif
