/* Shared by rope, kv_store and attend: indices of tokens, and checks of the caches. */
#ifndef SKEEP_OP_POSITIONS_H
#define SKEEP_OP_POSITIONS_H

#include "op_operand.h"
#include "op_tasks.h"

/* Runs check(arg) so that a fault of a mapped page becomes an error. */
static inline skeep_status guarded(void (*check)(void *arg), void *arg) {
  const uint64_t fault = skeep_guarded(check, arg);
  return fault ? skeep_fail(SKEEP_ERR_FAULT, -1, fault) : skeep_ok();
}

/* The indices of some tokens, read once, since other threads may change them meanwhile. */
#define INDICES 256
struct indices {
  int64_t first, tokens;
  int32_t position[INDICES], sequence[INDICES];
};

static inline int64_t sequence_of(const skeep_view *sequences, int64_t t) {
  return sequences ? operand_i32(sequences, t) : 0;
}

/* Reads the indices of the next tokens, as many as there is room for. ERR_INDEX when one is out of range. operand: the
 * position of `positions` in the call. */
static inline skeep_status indices_read(struct indices *n, const skeep_view *positions, const skeep_view *sequences,
                                        int64_t sequence_count, int32_t operand) {
  n->tokens = min_i64(INDICES, positions->layout.shape[0] - n->first);
  for (int64_t i = 0; i < n->tokens; i++) {
    const int64_t position = operand_i32(positions, n->first + i), sequence = sequence_of(sequences, n->first + i);
    if (position < 0) return skeep_fail(SKEEP_ERR_INDEX, operand, (uint64_t)(n->first + i));
    if (sequence < 0 || sequence >= sequence_count)
      return skeep_fail(SKEEP_ERR_INDEX, operand + 1, (uint64_t)(n->first + i));
    n->position[i] = (int32_t)position;
    n->sequence[i] = (int32_t)sequence;
  }
  return skeep_ok();
}

/* Checks positions [tokens] and, when present, sequences [tokens], which are these operands of the call. */
static inline skeep_status indices_check(const skeep_view *positions, const skeep_view *sequences, int32_t operand,
                                         int64_t tokens) {
  SKEEP_TRY(operand_dense(positions, operand, SKEEP_I32, 1));
  SKEEP_TRY(operand_extent(positions, operand, 0, tokens));
  if (!sequences) return skeep_ok();
  SKEEP_TRY(operand_dense(sequences, operand + 1, SKEEP_I32, 1));
  return operand_extent(sequences, operand + 1, 0, tokens);
}

/* Checks that both caches have one encoding, for which this operation has a kernel, and one shape except for head_dim.
 * key: the operand of the key cache. */
static inline skeep_status caches_check(struct skeep_op *op, uint32_t id, int32_t key,
                                        const struct skeep_kernel **kernel) {
  const skeep_view *k = op->v[key], *v = op->v[key + 1];
  SKEEP_TRY(skeep_select_row(id, op->v, op->count, kernel));
  SKEEP_TRY(operand_dense(k, key, k->encoding, 4));
  SKEEP_TRY(operand_dense(v, key + 1, k->encoding, 4));
  for (uint32_t a = 0; a < 3; a++) SKEEP_TRY(operand_extent(v, key + 1, a, k->layout.shape[a]));
  return skeep_ok();
}

#endif
