/* The layouts that operands may have, from ops.def. skeep_op_begin and skeep_select check their operands against it, so
 * that no kernel ever gets a layout that it cannot handle. */
#include "internal.h"

/* Layouts. Formats, ranks and extents are checked by each operation. */
enum layouts {
  ABSENT, /* no such operand */
  ANY,    /* any block order and strides */
  ROWS,   /* ROW_MAJOR, the cells of the last axis next to each other */
  EVEN,   /* as ROWS, and the distance from one row to the next is constant over all outer axes */
  WEIGHT  /* rows of blocks in any order; the kernel table decides whether there is a kernel */
};
enum role {
  IN,
  PLACE, /* an input that may be the same view as an output */
  OUT
};
static const struct operand {
  uint8_t layouts, role, optional;
} table[][6] = {
#define SKEEP_OP(NAME, name, as, any_order, key, other, count, ...) [SKEEP_OP_##NAME] = {__VA_ARGS__},
#include "generated/ops_table.h"
#undef SKEEP_OP
};
#define OPS (sizeof table / sizeof table[0])
#define OPERANDS (sizeof table[0] / sizeof table[0][0])
_Static_assert(OPERANDS == SKEEP_OP_OPERANDS, "the max over all operations");

/* Operand i in a call of op with count operands. project has as many weights as biases and outputs. */
static struct operand operand(uint32_t op, uint32_t i, uint32_t count) {
  if (op == SKEEP_OP_PROJECT && i) i = count < 4 ? OPERANDS : 1 + (i - 1) / (count / 3);
  return op < OPS && i < OPERANDS ? table[op][i] : (struct operand){ABSENT, IN, 1};
}

struct skeep_roles skeep_operand_roles(uint32_t op, uint32_t count) {
  struct skeep_roles roles = {0, 0, 0};
  for (uint32_t i = 0; i < count; i++) {
    const struct operand o = operand(op, i, count);
    roles.outputs |= (uint32_t)(o.role == OUT) << i;
    roles.in_place |= (uint32_t)(o.role == PLACE) << i;
    roles.required |= (uint32_t)!o.optional << i;
  }
  return roles;
}

/* The first axis whose stride is not accepted, -1 for none. */
static int broken(const skeep_layout *l, uint32_t accepted) {
  const int last = l->rank - 1, packed = l->block > 1;
  if (accepted <= ANY || last < 0) return -1;
  if (packed && l->block_axis != last) return l->block_axis;
  if (l->order.family != SKEEP_ORDER_ROW_MAJOR)
    return accepted == WEIGHT && l->row_axis == last - 1 ? -1 : l->row_axis;
  if (l->shape[last] > (packed ? l->block : 1) && l->stride[last] != 1) return last;
  if (accepted != EVEN) return -1;
  int64_t rows = 1, stride = 0;
  for (int a = last - 1; a >= 0; a--) {
    if (l->shape[a] == 1) continue;
    if (rows == 1) stride = l->stride[a];
    if (l->stride[a] != rows * stride) return a;
    rows *= l->shape[a];
  }
  return -1;
}

skeep_status skeep_operands_check(uint32_t op, const skeep_view *const *operands, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (!operands[i]) continue;
    const int axis = broken(&operands[i]->layout, operand(op, i, count).layouts);
    if (axis >= 0) return skeep_fail(SKEEP_ERR_LAYOUT, (int32_t)i, (uint64_t)axis);
  }
  return skeep_ok();
}

const skeep_view *skeep_operand_settled(const skeep_view *v, skeep_view *copy) {
  const skeep_layout *l = &v->layout;
  const int panels = l->order.family == SKEEP_ORDER_ROW_PANEL;
  const skeep_view *settled = v;
  for (int a = 0; a < l->rank && a < 4; a++) {
    if (l->stride[a] <= 0 || l->shape[a] > (a == l->block_axis ? l->block : 1)) continue;
    if (panels && (a == l->block_axis || a == l->row_axis)) continue;
    if (settled == v) {
      *copy = *v;
      settled = copy;
    }
    copy->layout.stride[a] = 0;
  }
  return settled;
}
