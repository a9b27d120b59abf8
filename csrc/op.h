/* One operation, from its begin to its end. Part of internal.h. */
#ifndef SKEEP_OP_H
#define SKEEP_OP_H

/* A public operation does this:
 *  1. skeep_op_begin: pins its operands and checks liveness, fields, formats, bounds, layouts (as listed in ops.def),
 *  that
 *     outputs are writable and do not overlap, and that no required operand is missing;
 *  2. its own checks of formats and extents;
 *  3. selection of a kernel;
 *  4. skeep_pool_run over its tasks;
 *  5. skeep_op_end: records the first error of a step. Without a step it verifies mapped files and gives the pins
 *  back. */
struct skeep_op {
  skeep_pool *pool;
  skeep_step *step;
  const skeep_view *v[SKEEP_MAX_OPERANDS]; /* NULL when absent; see skeep_operand_settled */
  skeep_view settled[SKEEP_MAX_OPERANDS];  /* copies of operands whose strides were changed */
  uint32_t count;
  uint32_t pins;                              /* how many slots in pinned; 0 with a step */
  struct skeep_slot *pinned[SKEEP_MAX_OPERANDS]; /* what a call without a step pins */
  int error;                                     /* errno of the caller, restored at the end */
  uint64_t control;                              /* floating-point control of the caller, restored at the end */
  int opened;                                    /* SIGBUS was blocked on this thread and is unblocked until the end */
};
/* id: SKEEP_OP_*. On failure everything is undone and skeep_op_end must not be called. */
skeep_status skeep_op_begin(struct skeep_op *op, uint32_t id, skeep_pool *pool, skeep_step *step,
                            const skeep_view *const *operands, uint32_t count);
skeep_status skeep_op_end(struct skeep_op *op, skeep_status status);

/* Sets of operands, as bits: those that are written; inputs that may be the same view as an output; those that must not
 * be absent. */
struct skeep_roles {
  uint32_t outputs, in_place, required;
};
struct skeep_roles skeep_operand_roles(uint32_t op, uint32_t count);
/* Checks the layouts of the operands that are present: ERR_LAYOUT, detail: the axis. */
skeep_status skeep_operands_check(uint32_t op, const skeep_view *const *operands, uint32_t count);
/* v, or a copy of it in *copy with stride 0 on each axis of one block (or element, when dense). Such a stride is never
 * used, so callers may set any number, and arithmetic with it could overflow. Strides of panels describe the whole
 * plane and are kept. v need not be checked before. */
const skeep_view *skeep_operand_settled(const skeep_view *v, skeep_view *copy);

#endif
