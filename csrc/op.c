/* What every operation begins and ends with. */
#include "slot.h"

_Static_assert(SKEEP_MAX_OPERANDS <= 32, "operands are numbered in the bits of a word");

static void unpin(struct skeep_op *op) {
  while (op->pins) skeep_slot_unpin(op->pinned[--op->pins]);
}

/* Makes sure that the slot of v and its root stay until the operation or its step ends. */
static skeep_status hold(struct skeep_op *op, const skeep_view *v, struct skeep_slot **root) {
  if (op->step) return skeep_step_pin(op->step, v->cell, v->generation, root);
  struct skeep_slot *slot;
  const skeep_status st = skeep_cell_pin(v->cell, v->generation, &slot);
  if (st.code != SKEEP_OK) return st;
  op->pinned[op->pins++] = slot;
  *root = slot->root;
  return st;
}

/* Whether output o shares bytes with operand i, unless it may be, and is, exactly the same view. */
static int overlaps(const skeep_view *o, const skeep_view *i, int may_be_same) {
  uint64_t o_from, o_to, i_from, i_to;
  skeep_view_range(o, &o_from, &o_to);
  skeep_view_range(i, &i_from, &i_to);
  if (o_to <= i_from || i_to <= o_from) return 0;
  return !(may_be_same && o->data == i->data && o->encoding == i->encoding &&
           !memcmp(&o->layout, &i->layout, sizeof o->layout));
}

static skeep_status check(struct skeep_op *op, uint32_t outputs, uint32_t in_place, uint32_t *operand) {
  for (uint32_t i = 0; i < op->count; i++) {
    const skeep_view *v = op->v[i];
    if (!v) continue;
    *operand = i;
    struct skeep_slot *root;
    skeep_status st = hold(op, v, &root);
    if (st.code == SKEEP_ERR_CLOSED) st.detail = v->storage;
    if (st.code != SKEEP_OK) return st;
    st = skeep_view_check_held(v, root);
    if (st.code != SKEEP_OK) return st;
    if (!(outputs >> i & 1)) continue;
    if (root->readonly) return skeep_fail(SKEEP_ERR_READONLY, 0, root->id);
    if (skeep_view_overlaps_itself(v)) return skeep_fail(SKEEP_ERR_OVERLAP, 0, i);
  }
  for (uint32_t o = 0; o < op->count; o++) {
    if (!(outputs >> o & 1) || !op->v[o]) continue;
    *operand = o;
    for (uint32_t i = 0; i < op->count; i++)
      if (i != o && op->v[i] && overlaps(op->v[o], op->v[i], in_place >> i & 1 & ~(outputs >> i)))
        return skeep_fail(SKEEP_ERR_OVERLAP, 0, i);
  }
  return skeep_ok();
}

skeep_status skeep_op_hold(struct skeep_op *op, skeep_step *step, const skeep_view *const *operands, uint32_t count,
                           uint32_t outputs, uint32_t in_place) {
  uint32_t operand = 0;
  op->pool = NULL;
  op->step = step;
  op->count = count;
  op->pins = 0;
  if (count > SKEEP_MAX_OPERANDS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, count);
  for (uint32_t i = 0; i < count; i++)
    op->v[i] = operands[i] ? skeep_operand_settled(operands[i], &op->settled[i]) : NULL;
  skeep_status st = check(op, outputs, in_place, &operand);
  if (st.code != SKEEP_OK) {
    st.operand = (int32_t)operand;
    unpin(op);
  }
  return st;
}

skeep_status skeep_op_begin(struct skeep_op *op, uint32_t id, skeep_pool *pool, skeep_step *step,
                            const skeep_view *const *operands, uint32_t count) {
  uint32_t outputs, in_place;
  if (step) {
    const skeep_status st = skeep_step_enter(step);
    if (st.code != SKEEP_OK) return st;
  }
  skeep_operand_roles(id, count, &outputs, &in_place);
  skeep_status st = pool ? skeep_op_hold(op, step, operands, count, outputs, in_place)
                         : skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  if (st.code == SKEEP_OK) {
    st = skeep_operands_check(id, op->v, count);
    if (st.code != SKEEP_OK) unpin(op);
  }
  op->pool = pool;
  return step ? skeep_step_keep(step, st) : st;
}

skeep_status skeep_op_end(struct skeep_op *op, skeep_status status) {
  unpin(op);
  return op->step ? skeep_step_keep(op->step, status) : status;
}
