/* Operations in which each row along the last axis is independent: norm, glu, add, mul, softmax, softcap. */
#include "op_operand.h"
#include "op_tasks.h"

#include <math.h>

/* ---- work in rows --------------------------------------------------------------------------------
 * All operands have the same shape, each with its own strides (0 where one row is broadcast). Outer axes are joined
 * where the strides of all operands allow it. When elements are independent, the last two axes are joined, too, and
 * long rows are cut into pieces. The result of a row does not depend on the task that computes it. */
enum { A, B, Y, BINARY };                                /* operands of a body over struct skeep_rows */
enum { X, BEFORE, W, AFTER, SUM, NORMED, NORM_OPERANDS }; /* operands of norm, as in skeep_norm */
#define CUT 4096 /* elements of a long row in one unit */

struct rowwise {
  char *data[NORM_OPERANDS]; /* NULL: absent */
  int64_t stride[NORM_OPERANDS][3];
  int64_t outer[3], n;
  uint64_t pieces;
  struct tasks tasks; /* a unit is one piece of one row */
  void (*call)(const struct rowwise *w, char *const *at, size_t rows, size_t n);
  void (*body)(void);
  float parameter;
  uint32_t form;
};

static void call_rows(const struct rowwise *w, char *const *at, size_t rows, size_t n) {
  const struct skeep_rows o = {at[A],           at[B],           at[Y], w->stride[A][2], w->stride[B][2],
                               w->stride[Y][2], rows,            n,     w->parameter,    w->form};
  ((skeep_body_rowwise *)w->body)(&o);
}

static void call_norm(const struct rowwise *w, char *const *at, size_t rows, size_t n) {
  const struct skeep_norm_rows o = {.x = at[X],
                                    .before = at[BEFORE],
                                    .w = at[W],
                                    .after = at[AFTER],
                                    .sum = at[SUM],
                                    .y = at[NORMED],
                                    .x_stride = w->stride[X][2],
                                    .before_stride = w->stride[BEFORE][2],
                                    .after_stride = w->stride[AFTER][2],
                                    .sum_stride = w->stride[SUM][2],
                                    .y_stride = w->stride[NORMED][2],
                                    .rows = rows,
                                    .n = n,
                                    .eps = w->parameter};
  ((skeep_body_norm *)w->body)(&o);
}

static void rowwise_task(void *arg, uint32_t task, void *scratch) {
  const struct rowwise *w = arg;
  uint64_t unit = tasks_begin(&w->tasks, task);
  const uint64_t end = tasks_end(&w->tasks, task);
  (void)scratch;
  while (unit < end) {
    const int64_t row = (int64_t)(unit / w->pieces), at[3] = {row / w->outer[2] / w->outer[1],
                                                             row / w->outer[2] % w->outer[1], row % w->outer[2]};
    const int64_t column = (int64_t)(unit % w->pieces) * CUT;
    char *p[NORM_OPERANDS] = {0};
    for (int i = 0; i < NORM_OPERANDS; i++)
      if (w->data[i])
        p[i] = w->data[i] + at[0] * w->stride[i][0] + at[1] * w->stride[i][1] + at[2] * w->stride[i][2] +
               column * (int64_t)sizeof(float);
    if (w->pieces > 1) {
      w->call(w, p, 1, (size_t)(w->n - column < CUT ? w->n - column : CUT));
      unit++;
    } else {
      const uint64_t left = (uint64_t)(w->outer[2] - at[2]), rows = end - unit < left ? end - unit : left;
      w->call(w, p, (size_t)rows, (size_t)w->n);
      unit += rows;
    }
  }
}

/* Whether axis a and the next one can be joined in every operand. */
static int joins(const struct rowwise *w, int a) {
  const int64_t inner = a < 2 ? w->outer[a + 1] : w->n;
  for (int i = 0; i < NORM_OPERANDS; i++) {
    const int64_t step = a < 2 ? w->stride[i][a + 1] : (int64_t)sizeof(float);
    if (w->data[i] && w->stride[i][a] != inner * step) return 0;
  }
  return 1;
}

/* Removes outer axis a, whose extent is 1 or has been joined with the next one, and inserts one of extent 1 in
 * front. */
static void drop(struct rowwise *w, int a) {
  for (; a > 0; a--) {
    w->outer[a] = w->outer[a - 1];
    for (int i = 0; i < NORM_OPERANDS; i++) w->stride[i][a] = w->stride[i][a - 1];
  }
  w->outer[0] = 1;
  for (int i = 0; i < NORM_OPERANDS; i++) w->stride[i][0] = 0;
}

/* Runs the body over all rows of v[0]. The other operands have its shape, or [n]: one row for all. elementwise:
 * elements are independent. worth: how many elements make it worthwhile to wake a worker. */
static skeep_status rowwise_run(struct rowwise *w, skeep_pool *pool, const skeep_view *const *v, int operands,
                                int elementwise, uint64_t worth) {
  const skeep_layout *l = &v[0]->layout;
  const int outer = l->rank - 1;
  w->n = l->shape[outer];
  for (int a = 0; a < 3; a++) w->outer[a] = a < 3 - outer ? 1 : l->shape[a - (3 - outer)];
  for (int i = 0; i < operands; i++) {
    if (!v[i]) continue;
    w->data[i] = operand_start(v[i], sizeof(float));
    if (v[i]->layout.rank != l->rank) continue;
    for (int a = 3 - outer; a < 3; a++)
      w->stride[i][a] = operand_step(v[i], (uint32_t)(a - (3 - outer)), sizeof(float));
  }
  for (int a = 2; a >= 0; a--)
    for (int again = a; again > 0 && w->outer[a] == 1; again--) drop(w, a);
  for (int a = 1; a >= 0; a--)
    while (w->outer[a] > 1 && joins(w, a)) {
      w->outer[a + 1] *= w->outer[a];
      drop(w, a);
    }
  if (elementwise && joins(w, 2)) {
    w->n *= w->outer[2];
    drop(w, 2);
  }
  w->pieces = elementwise ? ((uint64_t)w->n + CUT - 1) / CUT : 1;
  const uint64_t size = w->pieces > 1 ? CUT : (uint64_t)w->n;
  const uint64_t rows = (uint64_t)(w->outer[0] * w->outer[1] * w->outer[2]);
  w->tasks = tasks_of(pool, rows * w->pieces, size, worth, TASKS_EVEN);
  return skeep_pool_run(pool, rowwise_task, w, w->tasks.count);
}

/* ---- the operations ---- */

static skeep_status norm(struct skeep_op *op, float eps) {
  const struct skeep_kernel *kernel;
  if (!(eps >= 0) || isinf(eps)) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 6);
  for (int i = 0; i < NORM_OPERANDS; i++) {
    if (!op->v[i]) continue;
    SKEEP_TRY(operand_dense(op->v[i], i, SKEEP_F32, i == W ? 1 : 0));
    if (i == W)
      SKEEP_TRY(operand_extent(op->v[i], i, 0, op->v[X]->layout.shape[op->v[X]->layout.rank - 1]));
    else
      SKEEP_TRY(operand_shape(op->v[i], i, op->v[X]));
  }
  SKEEP_TRY(skeep_select_row(SKEEP_OP_NORM, op->v, op->count, &kernel));
  struct rowwise w = {.call = call_norm, .body = kernel->body, .parameter = eps};
  return rowwise_run(&w, op->pool, op->v, NORM_OPERANDS, 0, 8192);
}

skeep_status skeep_norm(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *before,
                        const skeep_view *w, const skeep_view *after, float eps, const skeep_view *sum,
                        const skeep_view *y) {
  const skeep_view *const v[NORM_OPERANDS] = {x, before, w, after, sum, y};
  struct skeep_op op;
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_NORM, pool, step, v, NORM_OPERANDS));
  sum = op.v[SUM], after = op.v[AFTER];
  if (sum && after && sum->data == after->data && !memcmp(&sum->layout, &after->layout, sizeof sum->layout))
    return skeep_op_end(&op, skeep_fail(SKEEP_ERR_OVERLAP, SUM, AFTER));
  return skeep_op_end(&op, norm(&op, eps));
}

/* y = f(a, b) or f(a): elementwise, or softmax. worth as in rowwise_run. */
static skeep_status rows(struct skeep_op *op, uint32_t id, float parameter, uint32_t form, uint64_t worth) {
  const struct skeep_kernel *kernel;
  const int32_t y = (int32_t)op->count - 1;
  for (int32_t i = 0; i <= y; i++) {
    SKEEP_TRY(operand_dense(op->v[i], i, SKEEP_F32, 0));
    if ((id == SKEEP_OP_ADD || id == SKEEP_OP_MUL) && i == B && op->v[B]->layout.rank == 1) /* one row for all */
      SKEEP_TRY(operand_extent(op->v[B], B, 0, op->v[A]->layout.shape[op->v[A]->layout.rank - 1]));
    else
      SKEEP_TRY(operand_shape(op->v[i], i, op->v[A]));
  }
  SKEEP_TRY(skeep_select_row(id, op->v, op->count, &kernel));
  struct rowwise w = {.call = call_rows, .body = kernel->body, .parameter = parameter, .form = form};
  const skeep_view *const v[BINARY] = {op->v[A], y == Y ? op->v[B] : NULL, op->v[y]};
  return rowwise_run(&w, op->pool, v, BINARY, id != SKEEP_OP_SOFTMAX, worth);
}

skeep_status skeep_glu(skeep_pool *pool, skeep_step *step, const skeep_view *gate, const skeep_view *up, uint32_t form,
                       const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {gate, up, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_GLU, pool, step, v, 3));
  const int known = form <= SKEEP_GLU_RELU;
  return skeep_op_end(&op, known ? rows(&op, SKEEP_OP_GLU, 0, form, 4096) : skeep_fail(SKEEP_ERR_ARGUMENT, -1, 4));
}

skeep_status skeep_add(skeep_pool *pool, skeep_step *step, const skeep_view *a, const skeep_view *b,
                       const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {a, b, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_ADD, pool, step, v, 3));
  return skeep_op_end(&op, rows(&op, SKEEP_OP_ADD, 0, 0, 16384));
}

skeep_status skeep_mul(skeep_pool *pool, skeep_step *step, const skeep_view *a, const skeep_view *b,
                       const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {a, b, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_MUL, pool, step, v, 3));
  return skeep_op_end(&op, rows(&op, SKEEP_OP_MUL, 0, 0, 16384));
}

skeep_status skeep_softmax(skeep_pool *pool, skeep_step *step, const skeep_view *x, float scale, const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {x, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_SOFTMAX, pool, step, v, 2));
  return skeep_op_end(&op, isfinite(scale) ? rows(&op, SKEEP_OP_SOFTMAX, scale, 0, 4096)
                                           : skeep_fail(SKEEP_ERR_ARGUMENT, -1, 3));
}

skeep_status skeep_softcap(skeep_pool *pool, skeep_step *step, const skeep_view *x, float cap, const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {x, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_SOFTCAP, pool, step, v, 2));
  return skeep_op_end(&op, cap > 0 && isfinite(cap) ? rows(&op, SKEEP_OP_SOFTCAP, cap, 0, 4096)
                                                    : skeep_fail(SKEEP_ERR_ARGUMENT, -1, 3));
}
