/* Groups of 32 weights: the interface between an encoding and the integer products that work for every encoding. An
 * encoding provides one function, in plain C, that reads a group; it is compiled into the unit of each instruction
 * set. */
#ifndef SKEEP_TILE_GROUP_H
#define SKEEP_TILE_GROUP_H

#include "codebooks.h"
#include "tile/tile.h"

/* 32 consecutive weights: element j has the value scale[j / 16] * code[j] + offset[j / 16]. Integer scales of
 * sub-blocks may be part of the codes: 16 * |code| * 127 must stay below 2^31. */
struct integer_group {
  int16_t code[32];
  float scale[2], offset[2];
};

/* Group g of the blocks that begin at row. */
typedef void integer_group_of(const char *row, size_t g, struct integer_group *out);

/* The block of group g, in encodings with several groups in a block. */
#define GROUP_BLOCK(form, row, g) \
  ((const skeep_block_##form *)(row) + (g) / (SKEEP_ELEMENTS_##form / 32))

static inline void group_scale(struct integer_group *out, float scale, float offset) {
  out->scale[0] = out->scale[1] = scale;
  out->offset[0] = out->offset[1] = offset;
}

/* The codes of a grid entry; bit j of signs negates element j. */
static inline void group_signed(int16_t *code, uint64_t grid, uint32_t negative, int count) {
  for (int j = 0; j < count; j++) {
    const int magnitude = (int)(grid >> 8 * j & 255);
    code[j] = (int16_t)(negative >> j & 1 ? -magnitude : magnitude);
  }
}

#endif
