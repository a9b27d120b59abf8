/* One operation, from its begin to its end. Part of internal.h. */
#ifndef SKEEP_OP_H
#define SKEEP_OP_H

/* Every public op is: skeep_op_begin (liveness, pins, fields, formats, bounds of each operand, outputs
 * writable and not overlapping, layouts as ops.def lists them, none absent that is required), its own checks of formats
 * and extents, selection, skeep_pool_run over its tiles, skeep_op_end (of a bare call: verifies its mapped roots, then unpins; keeps a step's first error). */
struct skeep_op {
  skeep_pool *pool;
  skeep_step *step;
  const skeep_view *v[SKEEP_MAX_OPERANDS]; /* absent ones NULL; settled */
  skeep_view settled[SKEEP_MAX_OPERANDS];  /* those that differ from what the caller gave */
  uint32_t count;
  uint32_t pins;                              /* of a bare call: how many of */
  struct skeep_slot *pinned[SKEEP_MAX_OPERANDS]; /* the slots that it pinned */
  int error;                                     /* errno, which no call changes */
  uint64_t control;                              /* the caller's floating-point control: nor that */
  int opened;                                    /* SIGBUS was blocked on this thread, and is open until the end */
};
/* id: SKEEP_OP_*. On failure everything is undone and skeep_op_end must not be called. */
skeep_status skeep_op_begin(struct skeep_op *op, uint32_t id, skeep_pool *pool, skeep_step *step,
                            const skeep_view *const *operands, uint32_t count);
skeep_status skeep_op_end(struct skeep_op *op, skeep_status status);

/* Bit i of each: operand i is written; is an input that an output may be exactly (same data and layout); must be there. */
struct skeep_roles {
  uint32_t outputs, in_place, required;
};
struct skeep_roles skeep_operand_roles(uint32_t op, uint32_t count);
/* Whether operands lie as op can take them, those that are there: else ERR_LAYOUT, detail: the axis. */
skeep_status skeep_operands_check(uint32_t op, const skeep_view *const *operands, uint32_t count);
/* v, or *copy with the stride 0 on each axis of one cell: that stride leads nowhere, may be any number, and arithmetic
 * with it could overflow. Strides of panels are facts of their plane and stay. v is not checked yet. */
const skeep_view *skeep_operand_settled(const skeep_view *v, skeep_view *copy);

#endif
