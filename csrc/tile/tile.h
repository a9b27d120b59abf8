/* What the products of all instruction sets share.
 *
 * The order of summation, the same for every number of tokens, rows and threads: the inner axis is cut into
 * sections of SKEEP_SECTION elements; each section has a sum of its own that starts at zero, and the sections
 * are added to the output in ascending order. Two levels keep the rounding error of long rows near
 * (section steps + sections) * 2^-24 instead of (all steps) * 2^-24.
 *
 * Within a section of an integer product, groups of 32 elements follow each other in ascending order; the sum of
 * codes times codes of one group is an exact integer, multiplied by (row scale * activation scale).
 * Within a section of an exact product, eight (AVX-512: sixteen) partial sums take the elements round robin and are
 * added as a tree at its end. */
#ifndef SKEEP_TILE_H
#define SKEEP_TILE_H

#include "blocks.h"

/* A multiple of the elements of every block, so that a section begins with a block of weights and activations. */
#define SKEEP_SECTION 512

#define SKEEP_INLINE static inline __attribute__((always_inline))

static inline size_t skeep_min(size_t a, size_t b) { return a < b ? a : b; }

/* Adds the sum of a section to an output element; the first section begins it. */
static inline void skeep_section_end(skeep_f32_any *y, float sum, int first) { *y = first ? sum : *y + sum; }

#endif
