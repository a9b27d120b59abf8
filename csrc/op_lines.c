/* Lines of views: their addresses, copying and decoding them. */
#include "op_lines.h"

struct skeep_line skeep_line_of(const skeep_view *v, const int64_t at[4], int axis) {
  int64_t index[4] = {at[0], at[1], at[2], at[3]};
  const skeep_layout *l = &v->layout;
  struct skeep_line line = {NULL, skeep_cell_bytes(v), NULL, 0};
  if (l->order.interleave) {
    const int64_t row = at[l->row_axis], panel = l->order.panel;
    if (row < l->shape[l->row_axis] / panel * panel) {
      line.runs = skeep_feed_runs(v->encoding);
      line.row = (size_t)(row % panel);
      index[l->row_axis] -= row % panel; /* a column begins where the block of its first row would */
    }
  }
  line.first = (char *)(uintptr_t)skeep_cell(v, index);
  const int64_t next = at[axis] + l->block;
  if (next < l->shape[axis]) {
    index[axis] = next;
    line.step = skeep_cell(v, index) - line.first;
  }
  return line;
}

static void cells_move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, size_t size) {
#define MOVE(bytes) \
  for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, bytes)
  switch (size) { /* the usual element sizes as single instructions */
    case 1: MOVE(1); break;
    case 2: MOVE(2); break;
    case 4: MOVE(4); break;
    case 8: MOVE(8); break;
    default: MOVE(size);
  }
#undef MOVE
}

void skeep_cells_copy(struct skeep_line to, struct skeep_line from, int64_t n, size_t size) {
  if (skeep_line_is_dense(to, size) && skeep_line_is_dense(from, size)) {
    memcpy(to.first, from.first, (size_t)n * size);
  } else if (!to.runs && !from.runs) {
    cells_move(to.first, to.step, from.first, from.step, n, size);
  } else {
    char block[SKEEP_LARGEST_BLOCK_BYTES];
    for (int64_t i = 0; i < n; i++) {
      char *in = from.first + i * from.step, *out = to.first + i * to.step;
      char *whole = from.runs ? to.runs ? block : out : in;
      if (from.runs) skeep_feed_read(from.runs, in, from.row, whole);
      if (to.runs) skeep_feed_write(to.runs, out, to.row, whole);
    }
  }
}

skeep_body_decode *skeep_decoder(uint32_t encoding) {
  const struct skeep_kernel *k = skeep_kernel_find(SKEEP_OP_DECODE, encoding, SKEEP_ANY, (skeep_order){0, 0, 0, 0});
  return k ? (skeep_body_decode *)k->body : NULL;
}

void skeep_line_read(const skeep_view *v, skeep_body_decode *decode, struct skeep_line l, int64_t n, char *raw, float *out) {
  const size_t size = skeep_cell_bytes(v);
  const int64_t blocks = (n + v->layout.block - 1) / v->layout.block;
  if (!skeep_line_is_dense(l, size)) {
    skeep_cells_copy(skeep_line_at(raw, size), l, blocks, size);
    l.first = raw;
  }
  decode(l.first, (size_t)blocks, out);
}

int skeep_nearest_axis(const skeep_layout *l) {
  if (l->block > 1) return l->block_axis;
  int best = l->rank ? l->rank - 1 : 0;
  for (int a = best - 1; a >= 0; a--)
    if (l->shape[a] > 1 && (l->shape[best] == 1 || l->stride[a] < l->stride[best])) best = a;
  return best;
}
