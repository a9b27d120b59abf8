/* What the operands of each operation may lie like: the one table of it. skeep_op_begin checks every operand of a call
 * against it and skeep_select what it is given, so that no body ever walks an order that it does not know. */
#include "internal.h"

/* Which layouts an operand may have. Formats, ranks and extents are the operation's own affair. */
enum layouts {
  ABSENT, /* behind the last operand */
  ANY,    /* every order and stride: read (or written) cell by cell, or along evenly spaced lines */
  ROWS,   /* as a file holds it (ROW_MAJOR), the cells of the last axis one behind the other */
  EVEN,   /* ROWS, and from row to row one distance over all outer axes */
  WEIGHT  /* rows of blocks in any order; which of them has a kernel, the kernel table says */
};
enum role {
  IN,
  PLACE, /* an input that an output may be exactly */
  OUT
};
#define OPERANDS 6
static const struct operand {
  uint8_t layouts, role;
} table[][OPERANDS] = {
    [SKEEP_OP_QUANTIZE_ROWS] = {{ROWS, IN}, {ROWS, OUT}},
    [SKEEP_OP_CONVERT] = {{ANY, IN}, {ANY, OUT}},
    [SKEEP_OP_ENCODE] = {{ANY, IN}, {ANY, OUT}},
    [SKEEP_OP_PREPACK] = {{ANY, IN}, {ANY, OUT}},
    /* x, w, y; of PROJECT x, then the weights, the biases and the outputs */
    [SKEEP_OP_MATMUL_T] = {{EVEN, IN}, {WEIGHT, IN}, {EVEN, OUT}},
    [SKEEP_OP_PROJECT] = {{EVEN, IN}, {WEIGHT, IN}, {ROWS, IN}, {EVEN, OUT}},
    /* table, ids, y */
    [SKEEP_OP_EMBED] = {{ANY, IN}, {ANY, IN}, {ROWS, OUT}},
    /* x, before, w, after, sum, y. sum may not be after, which is read behind it: norm refuses that itself. */
    [SKEEP_OP_NORM] = {{ROWS, PLACE}, {ROWS, PLACE}, {ROWS, IN}, {ROWS, PLACE}, {ROWS, OUT}, {ROWS, OUT}},
    /* x, positions, factors, y */
    [SKEEP_OP_ROPE] = {{ROWS, PLACE}, {ANY, IN}, {ANY, IN}, {ROWS, OUT}},
    /* k, v, positions, sequences, caches */
    [SKEEP_OP_KV_STORE] = {{ROWS, IN}, {ROWS, IN}, {ANY, IN}, {ANY, IN}, {ROWS, OUT}, {ROWS, OUT}},
    /* q, caches, positions, sequences, y */
    [SKEEP_OP_ATTEND] = {{ROWS, IN}, {ROWS, IN}, {ROWS, IN}, {ANY, IN}, {ANY, IN}, {ROWS, OUT}},
    [SKEEP_OP_GLU] = {{ROWS, PLACE}, {ROWS, PLACE}, {ROWS, OUT}},
    [SKEEP_OP_ADD] = {{ROWS, PLACE}, {ROWS, IN}, {ROWS, OUT}},
    [SKEEP_OP_MUL] = {{ROWS, PLACE}, {ROWS, IN}, {ROWS, OUT}},
    [SKEEP_OP_SOFTMAX] = {{ROWS, PLACE}, {ROWS, OUT}},
    [SKEEP_OP_SOFTCAP] = {{ROWS, PLACE}, {ROWS, OUT}},
};
#define OPS (sizeof table / sizeof table[0])

/* Operand i of a call of op with so many operands; a project has as many weights as biases and outputs. */
static struct operand operand(uint32_t op, uint32_t i, uint32_t count) {
  if (op == SKEEP_OP_PROJECT && i) i = count < 4 ? OPERANDS : 1 + (i - 1) / (count / 3);
  return op < OPS && i < OPERANDS ? table[op][i] : (struct operand){ABSENT, IN};
}

void skeep_operand_roles(uint32_t op, uint32_t count, uint32_t *outputs, uint32_t *in_place) {
  *outputs = *in_place = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t role = operand(op, i, count).role;
    *outputs |= (uint32_t)(role == OUT) << i;
    *in_place |= (uint32_t)(role == PLACE) << i;
  }
}

/* The axis that breaks the rule, -1 for none. */
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
