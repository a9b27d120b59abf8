/* Lines of a view: the elements with all indices fixed but one. In every block order, the cells of a line (its blocks,
 * or elements when dense) are evenly spaced; in feed order, where blocks are interleaved, their columns are. Whoever
 * wants whole blocks of a view gets and puts them through the functions of this file, whatever the order. */
#ifndef SKEEP_OP_LINES_H
#define SKEEP_OP_LINES_H

#include "internal.h"

#define SKEEP_LINE_CHUNK 2048 /* elements of a line that are worked on at a time; a multiple of every block */
#define SKEEP_LARGEST_BLOCK 256
#define SKEEP_LARGEST_BLOCK_BYTES 512

struct skeep_line {
  char *first;                  /* cell, or column */
  int64_t step;                 /* bytes from one to the next */
  const struct skeep_run *runs; /* of the columns; NULL when cells are whole */
  size_t row;                   /* in the columns */
};

/* Bytes of a cell of v. */
static inline uint32_t skeep_cell_bytes(const skeep_view *v) { return skeep_encoding_find(v->encoding)->block_bytes; }
/* The line of v along axis that begins at index. */
struct skeep_line skeep_line_of(const skeep_view *v, const int64_t at[4], int axis);
/* n cells of `size` bytes from one line to another. */
void skeep_cells_copy(struct skeep_line to, struct skeep_line from, int64_t n, size_t size);
/* The line of cells of `size` bytes that follow each other at p. */
static inline struct skeep_line skeep_line_at(char *p, size_t size) {
  return (struct skeep_line){p, (int64_t)size, NULL, 0};
}
/* Whether the cells, of `size` bytes each, are whole and follow each other. */
static inline int skeep_line_is_dense(struct skeep_line l, size_t size) { return !l.runs && l.step == (int64_t)size; }
/* Decodes the n elements of a line that starts at a block; out has room for whole blocks, raw for them undecoded. */
void skeep_line_read(const skeep_view *v, skeep_body_decode *decode, struct skeep_line l, int64_t n, char *raw, float *out);
/* The best skeep_decoder of an encoding, or NULL. */
skeep_body_decode *skeep_decoder(uint32_t encoding);
/* The axis with the smallest stride; of equal ones the last. */
int skeep_nearest_axis(const skeep_layout *l);
/* Copies the elements of x to y, which has the same dense format and shape, with any strides. In op_convert.c. */
skeep_status skeep_elements_copy(const skeep_view *x, const skeep_view *y, skeep_pool *pool);

#endif
