/* matmul_t and project: y = x * transpose(w), for one weight or several with the same x, in one parallel region. */
#include "op_operand.h"
#include "op_tasks.h"

#define WEIGHTS 3
#define ROWS 48                  /* the rows of a task are a multiple of it: kernels take up to so many rows at once */
#define TASK_WEIGHTS (512 << 10) /* bytes of weights: some 50 microseconds of reading, and long runs of pages */
#define TASK_X (1 << 20)         /* bytes of activations that should stay in the second-level cache */
#define TASK_TOKENS 32           /* fewer in a task would unpack the weights too often */

struct weight {
  skeep_body_matmul_t *body, *stored; /* of whole panels, or of all rows; of the rows behind the panels, in feed order */
  const char *w, *bias; /* bias or NULL */
  float *y;
  int64_t w_stride, y_stride; /* bytes, elements */
  size_t out, panels, rows;   /* all; those in whole panels, or all; of a task, a multiple of panels */
  uint32_t first;             /* task */
};

/* How the work is cut into tasks does not change results: each output element is computed by one call of a kernel, and
 * kernels add its terms in the same order whatever the number of rows and tokens. */
struct products {
  struct weight weight[WEIGHTS];
  uint32_t count;
  const char *x;
  int64_t x_stride;
  size_t tokens, n, parts; /* of the tokens */
};

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

static void compute(const struct products *p, uint32_t index, void *scratch) {
  const struct weight *w = p->weight;
  while (w + 1 < p->weight + p->count && index >= w[1].first) w++;
  const size_t tile = (index - w->first) / p->parts, part = (index - w->first) % p->parts;
  const size_t o = tile * w->rows, t = p->tokens * part / p->parts, end = p->tokens * (part + 1) / p->parts;
  const struct skeep_machine *machine = skeep_machine();
  struct skeep_matmul_tile m = {.x = p->x + (int64_t)t * p->x_stride,
                                .x_stride = p->x_stride,
                                .w = w->w + (int64_t)o * w->w_stride,
                                .w_stride = w->w_stride,
                                .y = w->y + (int64_t)t * w->y_stride + o,
                                .y_stride = w->y_stride,
                                .tokens = end - t,
                                .rows = w->out - o < w->rows ? w->out - o : w->rows,
                                .n = p->n,
                                .scratch = scratch,
                                .ahead = machine->ahead,
                                .panels = machine->panels};
  const size_t rows = m.rows, whole = o < w->panels ? min_size(rows, w->panels - o) : 0;
  m.rows = whole;
  if (whole) w->body(&m);
  m.rows = rows - whole;
  m.w += (int64_t)whole * m.w_stride;
  m.y += whole;
  if (m.rows) w->stored(&m);
  m.rows = rows;
  m.y -= whole;
  if (!w->bias) return;
  for (size_t i = 0; i < m.tokens; i++)
    for (size_t j = 0; j < m.rows; j++) {
      float y, b;
      char *to = (char *)(m.y + (int64_t)i * m.y_stride + j);
      memcpy(&y, to, sizeof y);
      memcpy(&b, w->bias + (o + j) * sizeof b, sizeof b);
      y += b;
      memcpy(to, &y, sizeof y);
    }
}

/* On many processors, a multiplication with a subnormal number takes a hundred times as long. */
static void task(void *arg, uint32_t index, void *scratch) {
  const uint64_t control = skeep_float_flush();
  compute(arg, index, scratch);
  skeep_float_restore(control);
}

static skeep_status run(struct products *p, skeep_pool *pool) {
  const uint32_t wanted = TASKS_EVEN * skeep_pool_threads(pool); /* tasks */
  size_t tiles = 0, by_cache = TASK_X / (size_t)(p->x_stride ? p->x_stride : 1);
  for (uint32_t i = 0; i < p->count; i++) {
    struct weight *w = &p->weight[i];
    size_t units = w->w_stride ? TASK_WEIGHTS / (ROWS * (size_t)w->w_stride) : 1;
    if (units > w->out / (ROWS * wanted)) units = w->out / (ROWS * wanted);
    w->rows = ROWS * (units ? units : 1);
    tiles += (w->out - 1) / w->rows + 1;
  }
  if (by_cache < TASK_TOKENS) by_cache = TASK_TOKENS;
  p->parts = (p->tokens - 1) / by_cache + 1;
  if (p->parts * tiles < wanted) {
    const size_t max_parts = (p->tokens + 7) / 8, more = (wanted - 1) / tiles + 1;
    p->parts = more < max_parts ? more : max_parts;
  }
  if (tiles > UINT32_MAX / p->parts) return skeep_fail(SKEEP_ERR_SHAPE, 0, 0);
  uint32_t tasks = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    p->weight[i].first = tasks;
    tasks += (uint32_t)(((p->weight[i].out - 1) / p->weight[i].rows + 1) * p->parts);
  }
  return skeep_pool_run(pool, task, p, tasks);
}

/* All axes of v but the last as one, which op_operands.c has checked is possible: the extent, and the stride in
 * cells. */
static size_t rows_of(const skeep_view *v, int64_t *stride) {
  size_t rows = 1;
  *stride = 0;
  for (int a = v->layout.rank - 2; a >= 0; a--) {
    if (v->layout.shape[a] == 1) continue;
    if (rows == 1) *stride = v->layout.stride[a];
    rows *= (size_t)v->layout.shape[a];
  }
  return rows;
}

/* One product: x with w, bias (or NULL) and y, at these positions of the call. */
static skeep_status product(const skeep_view *x, const skeep_view *const v[3], const int32_t at[3], struct weight *w) {
  const skeep_view *weight = v[0], *bias = v[1], *y = v[2];
  const struct skeep_kernel *kernel;
  skeep_status st = skeep_select_row(SKEEP_OP_MATMUL_T, (const skeep_view *const[]){x, weight, y}, 3, &kernel);
  if (st.code != SKEEP_OK) {
    if (st.operand > 0) st.operand = at[st.operand == 1 ? 0 : 2];
    return st;
  }
  const uint32_t last = x->layout.rank - 1u;
  if (weight->layout.rank != 2) return skeep_fail(SKEEP_ERR_SHAPE, at[0], weight->layout.rank);
  SKEEP_TRY(operand_extent(weight, at[0], 1, x->layout.shape[last]));
  SKEEP_TRY(operand_dense(y, at[2], SKEEP_F32, x->layout.rank));
  for (uint32_t a = 0; a < last; a++) SKEEP_TRY(operand_extent(y, at[2], a, x->layout.shape[a]));
  SKEEP_TRY(operand_extent(y, at[2], last, weight->layout.shape[0]));
  if (bias) {
    SKEEP_TRY(operand_dense(bias, at[1], SKEEP_F32, 1));
    SKEEP_TRY(operand_extent(bias, at[1], 0, weight->layout.shape[0]));
  }
  (void)rows_of(y, &w->y_stride); /* as many as of x: the extents agree */
  const int64_t bytes = skeep_encoding_find(weight->encoding)->block_bytes;
  w->body = w->stored = (skeep_body_matmul_t *)kernel->body;
  w->w = operand_start(weight, bytes);
  w->w_stride = operand_step(weight, 0, bytes);
  w->bias = bias ? operand_start(bias, sizeof(float)) : NULL;
  w->y = (float *)(void *)operand_start(y, sizeof(float));
  w->out = w->panels = (size_t)weight->layout.shape[0];
  if (weight->layout.order.family == SKEEP_ORDER_ROW_PANEL) {
    kernel = skeep_kernel_product(weight->encoding, x->encoding, (skeep_order){0, 0, 0, 0}, skeep_one_token(x));
    if (!kernel) return skeep_fail(SKEEP_ERR_NO_KERNEL, at[0], (uint64_t)weight->encoding << 32 | SKEEP_OP_MATMUL_T);
    w->stored = (skeep_body_matmul_t *)kernel->body;
    w->panels -= w->panels % weight->layout.order.panel;
  }
  return skeep_ok();
}

/* op's operands: x, count weights, with_bias times count biases, count outputs. */
static skeep_status products(struct skeep_op *op, uint32_t count, int with_bias) {
  struct products p = {.count = count};
  const skeep_view *x = op->v[0];
  if (!x->layout.rank) return skeep_fail(SKEEP_ERR_SHAPE, 0, 0);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t w = 1 + i, bias = w + count, y = bias + (with_bias ? count : 0);
    const skeep_view *const v[3] = {op->v[w], with_bias ? op->v[bias] : NULL, op->v[y]};
    SKEEP_TRY(product(x, v, (const int32_t[3]){(int32_t)w, (int32_t)bias, (int32_t)y}, &p.weight[i]));
  }
  p.tokens = rows_of(x, &p.x_stride);
  const int64_t bytes = skeep_encoding_find(x->encoding)->block_bytes;
  p.x = operand_start(x, bytes);
  p.x_stride *= bytes;
  p.n = (size_t)x->layout.shape[x->layout.rank - 1];
  return run(&p, op->pool);
}

skeep_status skeep_matmul_t(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *w,
                            const skeep_view *y) {
  struct skeep_op op;
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_MATMUL_T, pool, step, (const skeep_view *const[]){x, w, y}, 3));
  return skeep_op_end(&op, products(&op, 1, 0));
}

skeep_status skeep_project(skeep_pool *pool, skeep_step *step, const skeep_view *x, uint32_t count,
                           const skeep_view *const *w, const skeep_view *const *bias, const skeep_view *const *y) {
  struct skeep_op op;
  const skeep_view *v[1 + 3 * WEIGHTS] = {x};
  const skeep_status wrong = !count || count > WEIGHTS ? skeep_fail(SKEEP_ERR_ARGUMENT, -1, 3)
                             : !w || !y                ? skeep_fail(SKEEP_ERR_ARGUMENT, -1, w ? 6 : 4)
                                                       : skeep_ok();
  if (wrong.code != SKEEP_OK) count = 0; /* continue, so that the step records the error */
  for (uint32_t i = 0; i < count; i++) {
    v[1 + i] = w[i];
    v[1 + count + i] = bias ? bias[i] : NULL;
    v[1 + 2 * count + i] = y[i];
  }
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_PROJECT, pool, step, v, 1 + 3 * count));
  return skeep_op_end(&op, count ? products(&op, count, 1) : wrong);
}
