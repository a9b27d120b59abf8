/* Lines of views: their addresses, copying and decoding them. */
#include "op_lines.h"

struct skeep_line skeep_line_of(const skeep_view *v, const int64_t at[4], int axis) {
  int64_t index[4] = {at[0], at[1], at[2], at[3]};
  struct skeep_line l = {(char *)(uintptr_t)skeep_cell(v, index), skeep_cell_bytes(v)};
  const int64_t next = at[axis] + v->layout.block;
  if (next < v->layout.shape[axis]) {
    index[axis] = next;
    l.step = skeep_cell(v, index) - l.first;
  }
  return l;
}

void skeep_cells_move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, size_t size) {
  if (to_step == (int64_t)size && from_step == (int64_t)size) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
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

skeep_body_decode *skeep_decoder(uint32_t encoding) {
  const struct skeep_kernel *k = skeep_kernel_find(SKEEP_OP_DECODE, encoding, SKEEP_ANY, (skeep_order){0, 0, 0, 0});
  return k ? (skeep_body_decode *)k->body : NULL;
}

void skeep_line_read(const skeep_view *v, skeep_body_decode *decode, struct skeep_line l, int64_t n, char *raw, float *out) {
  const size_t size = skeep_cell_bytes(v);
  const int64_t blocks = (n + v->layout.block - 1) / v->layout.block;
  if (l.step != (int64_t)size) {
    skeep_cells_move(raw, (int64_t)size, l.first, l.step, blocks, size);
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
