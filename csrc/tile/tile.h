/* Shared by the products of all instruction sets.
 *
 * The order of summation is the same for every number of tokens, rows and threads. The inner axis is cut into sections
 * of SKEEP_SECTION elements. Each section has its own sum, which starts at zero, and the sections are added to the
 * output in ascending order. With these two levels, the rounding error of long rows is near (steps of a section +
 * sections) * 2^-24 instead of (all steps) * 2^-24.
 *
 * In a section of an integer product, groups of 32 elements are added in ascending order. The sum of the products of
 * codes in a group is an exact integer, which is multiplied by (row scale * activation scale).
 * In a section of an exact product, the elements are distributed in turn over eight partial sums (AVX-512: sixteen),
 * which are added as a tree at the end of the section. */
#ifndef SKEEP_TILE_H
#define SKEEP_TILE_H

#include "blocks.h"

/* A multiple of the elements of every block, so that a section begins with a block of weights and activations. */
#define SKEEP_SECTION 512

#define SKEEP_INLINE static inline __attribute__((always_inline))

static inline size_t skeep_min(size_t a, size_t b) { return a < b ? a : b; }

/* Blocks of row o of a tile from element k on: where they are stored or, in feed order, copied to `copy`. runs: as
 * skeep_feed_runs, NULL = as stored. block, bytes: elements and size of a block. */
static inline const char *skeep_tile_blocks(const struct skeep_matmul_tile *tile, const struct skeep_run *runs, size_t o,
                                            size_t k, size_t elements, size_t block, size_t bytes, char *copy) {
  const size_t at = k / block * bytes, row = o % SKEEP_FEED_PANEL;
  if (!runs) return tile->w + (int64_t)o * tile->w_stride + at;
  const char *column = tile->w + (int64_t)(o - row) * tile->w_stride + SKEEP_FEED_PANEL * at;
  for (size_t i = 0; i < elements / block; i++)
    skeep_feed_read(runs, column + SKEEP_FEED_PANEL * i * bytes, row, copy + i * bytes);
  return copy;
}

/* Adds the sum of a section to an output element. The first section sets it. */
static inline void skeep_section_end(skeep_f32_any *y, float sum, int first) { *y = first ? sum : *y + sum; }

#endif
