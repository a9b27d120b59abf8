/* The beginning and end of every operation. */
#include "memory_slot.h"

_Static_assert(SKEEP_MAX_OPERANDS <= 32, "operands are numbered in the bits of a word");

/* Gives back what an operation holds and restores errno and floating-point control. The control comes first, since
 * giving back the last pin may call a release function of the host. */
static void give_back(struct skeep_op *op) {
  skeep_float_give(op->control);
  if (op->opened) skeep_guard_shut();
  while (op->pins) skeep_slot_unpin(op->pinned[--op->pins]);
  if (op->pool) skeep_pool_leave(op->pool);
  errno = op->error;
}

/* Pins the slot of an operand and its root until the operation or its step ends. */
static skeep_status hold(struct skeep_op *op, uint32_t operand, struct skeep_slot **root) {
  const skeep_view *v = op->v[operand];
  if (op->step) return skeep_step_pin(op->step, v->cell, v->generation, operand, root);
  struct skeep_slot *slot;
  const skeep_status st = skeep_cell_pin(v->cell, v->generation, &slot);
  if (st.code != SKEEP_OK) return st;
  op->pinned[op->pins++] = slot;
  *root = slot->root;
  return st;
}

/* Whether output o shares bytes with operand i. Not when both are the same view and that is allowed. */
static int overlaps(const skeep_view *o, const skeep_view *i, int may_be_same) {
  uint64_t o_from, o_to, i_from, i_to;
  skeep_view_range(o, &o_from, &o_to);
  skeep_view_range(i, &i_from, &i_to);
  if (o_to <= i_from || i_to <= o_from) return 0;
  return !(may_be_same && o->data == i->data && o->encoding == i->encoding &&
           !memcmp(&o->layout, &i->layout, sizeof o->layout));
}

/* Whether reading may fault: files mapped here, and memory of the host, which may be a mapped file. */
static int may_fault(const struct skeep_slot *root) {
  return root->kind == SKEEP_FILE || (root->kind == SKEEP_BORROWED && root->domain == SKEEP_DOMAIN_OFFHEAP);
}

static skeep_status check(struct skeep_op *op, uint32_t outputs, uint32_t in_place, uint32_t *operand) {
  int mapped = 0;
  for (uint32_t i = 0; i < op->count; i++) {
    const skeep_view *v = op->v[i];
    if (!v) continue;
    *operand = i;
    struct skeep_slot *root;
    skeep_status st = hold(op, i, &root);
    if (st.code == SKEEP_ERR_CLOSED) st.detail = v->storage;
    if (st.code != SKEEP_OK) return st;
    st = skeep_view_check_held(v, root);
    if (st.code != SKEEP_OK) return st;
    mapped |= may_fault(root);
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
  if (mapped) op->opened = skeep_guard_open(op->step ? skeep_step_serial(op->step) : 0);
  return skeep_ok();
}

skeep_status skeep_op_hold(struct skeep_op *op, skeep_pool *pool, skeep_step *step, const skeep_view *const *operands,
                           uint32_t count, uint32_t outputs, uint32_t in_place) {
  uint32_t operand = 0;
  op->error = errno;
  op->pool = pool;
  op->step = step;
  op->count = count;
  op->pins = 0;
  op->opened = 0;
  if (count > SKEEP_MAX_OPERANDS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, count);
  op->control = skeep_float_take();
  if (pool) skeep_pool_enter(pool);
  for (uint32_t i = 0; i < count; i++)
    op->v[i] = operands[i] ? skeep_operand_settled(operands[i], &op->settled[i]) : NULL;
  skeep_status st = check(op, outputs, in_place, &operand);
  if (st.code != SKEEP_OK) {
    st.operand = (int32_t)operand;
    give_back(op);
  }
  return st;
}

static skeep_status all_there(const struct skeep_op *op, uint32_t required) {
  for (uint32_t i = 0; i < op->count; i++)
    if (!op->v[i] && required >> i & 1) return skeep_fail(SKEEP_ERR_ARGUMENT, (int32_t)i, 0);
  return skeep_ok();
}

skeep_status skeep_op_begin(struct skeep_op *op, uint32_t id, skeep_pool *pool, skeep_step *step,
                            const skeep_view *const *operands, uint32_t count) {
  if (step) {
    const skeep_status st = skeep_step_enter(step);
    if (st.code != SKEEP_OK) return st;
  }
  skeep_status st = skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  if (pool) {
    const struct skeep_roles roles = skeep_operand_roles(id, count);
    st = skeep_op_hold(op, pool, step, operands, count, roles.outputs, roles.in_place);
    if (st.code == SKEEP_OK) {
      st = skeep_operands_check(id, op->v, count);
      if (st.code == SKEEP_OK) st = all_there(op, roles.required);
      if (st.code != SKEEP_OK) give_back(op);
    }
  }
  return step ? skeep_step_keep(step, st) : st;
}

/* The operand whose bytes hold an address, or -1. */
static int32_t operand_at(const struct skeep_op *op, uint64_t address) {
  for (uint32_t i = 0; i < op->count; i++)
    if (op->v[i] && address - op->v[i]->data < op->v[i]->bytes) return (int32_t)i;
  return -1;
}

skeep_status skeep_op_end(struct skeep_op *op, skeep_status status) {
  if (status.code == SKEEP_ERR_FAULT) status.operand = operand_at(op, status.detail);
  /* When a file is truncated, the rest of its last page reads as zeros, without a fault. So what a call without a step
   * has read is valid only if the file has not changed. A step checks once, at its end. pinned is in operand order. */
  for (uint32_t i = 0, pin = 0; pin < op->pins; i++) {
    if (!op->v[i]) continue;
    const skeep_status now = skeep_root_verify(op->pinned[pin++]->root);
    if (now.code == SKEEP_OK || status.code == SKEEP_ERR_FAULT || status.code == SKEEP_ERR_CHANGED) continue;
    status = now;
    status.operand = (int32_t)i;
  }
  give_back(op);
  return op->step ? skeep_step_keep(op->step, status) : status;
}
