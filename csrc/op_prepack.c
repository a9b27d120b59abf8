/* prepack: copies blocks into another order. */
#include "op_boxes.h"
#include "op_lines.h"
#include "op_operand.h"

/* The work is cut into boxes of a few rows and some blocks of each. Rows that are contiguous in both views are copied as
 * a whole. The others are copied block by block, all rows of a block first, because in an interleaved order these blocks
 * are next to each other. */
#define BOX_ROWS 32
#define BOX_BLOCKS 64

struct repack {
  const skeep_view *x, *y;
  int row_axis, block_axis;
  struct skeep_boxes boxes;
};

/* Whether lines are all rows of a column on one side and whole blocks on the other. */
static int is_column(const struct skeep_line *to, const struct skeep_line *from, int lines) {
  const struct skeep_line *column = to->runs ? to : from, *whole = to->runs ? from : to;
  if (lines < SKEEP_FEED_PANEL || !column->runs) return 0;
  for (size_t r = 0; r < SKEEP_FEED_PANEL; r++)
    if (column[r].first != column->first || column[r].row != r || whole[r].runs) return 0;
  return 1;
}

/* Copies n blocks of each of these lines. */
static void columns_copy(const struct skeep_line *to, const struct skeep_line *from, int64_t n) {
  const struct skeep_line *whole = to->runs ? from : to;
  char *block[SKEEP_FEED_PANEL];
  for (size_t r = 0; r < SKEEP_FEED_PANEL; r++) block[r] = whole[r].first;
  for (int64_t b = 0; b < n; b++) {
    if (to->runs) {
      skeep_feed_write_all(to->runs, to->first + b * to->step, block);
    } else {
      skeep_feed_read_all(from->runs, from->first + b * from->step, block);
    }
    for (size_t r = 0; r < SKEEP_FEED_PANEL; r++) block[r] += whole[r].step;
  }
}

static void repack_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct repack *r = arg;
  struct skeep_line x[BOX_ROWS], y[BOX_ROWS];
  const int64_t block = r->x->layout.block, n = (extent[r->block_axis] + block - 1) / block;
  const size_t size = skeep_cell_bytes(r->x);
  int64_t index[4] = {at[0], at[1], at[2], at[3]};
  int rows = 0;
  (void)scratch;
  for (int64_t o = 0; o < extent[r->row_axis]; o++, index[r->row_axis]++) {
    x[rows] = skeep_line_of(r->x, index, r->block_axis);
    y[rows] = skeep_line_of(r->y, index, r->block_axis);
    if (skeep_line_is_dense(x[rows], size) && skeep_line_is_dense(y[rows], size))
      skeep_cells_copy(y[rows], x[rows], n, size);
    else
      rows++;
  }
  int others = 0;
  for (int o = 0; o < rows; o++) {
    if (is_column(y + o, x + o, rows - o)) {
      columns_copy(y + o, x + o, n);
      o += SKEEP_FEED_PANEL - 1;
    } else {
      x[others] = x[o];
      y[others++] = y[o];
    }
  }
  for (int64_t b = 0; b < n; b++)
    for (int o = 0; o < others; o++) {
      skeep_cells_copy(y[o], x[o], 1, size);
      x[o].first += x[o].step;
      y[o].first += y[o].step;
    }
}

static skeep_status prepack(struct skeep_op *op) {
  const skeep_view *x = op->v[0], *y = op->v[1];
  SKEEP_TRY(operand_shape(y, 1, x));
  if (x->encoding != y->encoding) return skeep_fail(SKEEP_ERR_FORMAT, 1, y->encoding);
  if (x->layout.block == 1) return skeep_elements_copy(x, y, op->pool);
  const int k = x->layout.block_axis, rx = x->layout.row_axis, ry = y->layout.row_axis;
  if (y->layout.block_axis != k) return skeep_fail(SKEEP_ERR_LAYOUT, 1, (uint64_t)k);
  if (rx >= 0 && ry >= 0 && rx != ry) return skeep_fail(SKEEP_ERR_LAYOUT, 1, (uint64_t)rx);
  struct repack r = {.x = x, .y = y, .block_axis = k, .row_axis = ry >= 0 ? ry : rx >= 0 ? rx : k ? k - 1 : 1};
  if (r.row_axis == k) return skeep_fail(SKEEP_ERR_LAYOUT, ry >= 0, (uint64_t)k);
  for (int a = 0; a < 4; a++) {
    r.boxes.shape[a] = x->layout.shape[a];
    r.boxes.cut[a] = 1;
  }
  r.boxes.cut[r.row_axis] = BOX_ROWS;
  r.boxes.cut[k] = BOX_BLOCKS * (int64_t)x->layout.block;
  return skeep_boxes_run(&r.boxes, op->pool, repack_box, &r);
}

skeep_status skeep_prepack(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_PREPACK, pool, step, (const skeep_view *const[]){x, y}, 2);
  return s.code ? s : skeep_op_end(&op, prepack(&op));
}
