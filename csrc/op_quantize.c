/* quantize_rows: quantizes activations. */
#include "op_boxes.h"
#include "op_lines.h"
#include "op_operand.h"

struct quantize {
  const skeep_view *x, *y;
  skeep_body_quantize_rows *body;
  struct skeep_boxes boxes; /* one row each */
};

static void quantize_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct quantize *q = arg;
  (void)extent, (void)scratch;
  q->body((const float *)(const void *)skeep_cell(q->x, at), (size_t)q->x->layout.shape[q->x->layout.rank - 1],
          (char *)(uintptr_t)skeep_cell(q->y, at));
}

static skeep_status quantize_rows(struct skeep_op *op) {
  struct quantize q = {.x = op->v[0], .y = op->v[1]};
  SKEEP_TRY(operand_dense(q.x, 0, SKEEP_F32, 0));
  const struct skeep_kernel *k =
      skeep_kernel_find(SKEEP_OP_QUANTIZE_ROWS, SKEEP_F32, q.y->encoding, (skeep_order){0, 0, 0, 0});
  if (!k) return skeep_fail(SKEEP_ERR_FORMAT, 1, q.y->encoding);
  q.body = (skeep_body_quantize_rows *)k->body;
  SKEEP_TRY(operand_shape(q.y, 1, q.x));
  const skeep_layout *y = &q.y->layout;
  for (int a = 0; a < 4; a++) {
    q.boxes.shape[a] = y->shape[a];
    q.boxes.cut[a] = a == y->rank - 1 ? y->shape[a] : 1;
  }
  return skeep_boxes_run(&q.boxes, op->pool, quantize_box, &q);
}

skeep_status skeep_quantize_rows(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_QUANTIZE_ROWS, pool, step, (const skeep_view *const[]){x, y}, 2);
  return s.code ? s : skeep_op_end(&op, quantize_rows(&op));
}
