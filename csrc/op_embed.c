/* embed: decodes rows of a table. */
#include "blocks.h"
#include "op_boxes.h"
#include "op_lines.h"
#include "op_operand.h"

#include <math.h>

struct embed {
  const skeep_view *table, *ids, *y;
  skeep_body_decode *decode;
  float scale;
  uint64_t *bad; /* the first id that is out of range */
  struct skeep_boxes boxes; /* one row each */
};

/* The id of row t, -1 when it is out of range. */
static int64_t id_of(const struct embed *e, int64_t t) {
  const int64_t id = operand_i32(e->ids, t);
  if (id >= 0 && id < e->table->layout.shape[0]) return id;
  operand_note(e->bad, (uint64_t)t);
  return -1;
}

/* Checks all ids before anything is written. Runs as a region of its own, since reading the ids may fault, too. */
static void embed_check(void *arg, uint32_t task, void *scratch) {
  const struct embed *e = arg;
  (void)task, (void)scratch;
  for (int64_t t = 0; t < e->ids->layout.shape[0]; t++) (void)id_of(e, t);
}

static void embed_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct embed *e = arg;
  const int64_t id = id_of(e, at[0]); /* read and checked again, since it may have changed */
  skeep_f32_any *y = (skeep_f32_any *)(uintptr_t)skeep_cell(e->y, at);
  if (id < 0) return;
  for (int64_t j = 0; j < extent[1]; j += SKEEP_LINE_CHUNK) {
    const struct skeep_line row = skeep_line_of(e->table, (const int64_t[4]){id, j, 0, 0}, 1);
    skeep_line_read(e->table, e->decode, row, min_i64(SKEEP_LINE_CHUNK, extent[1] - j), scratch, (float *)(y + j));
  }
  if (e->scale != 1.0f)
    for (int64_t j = 0; j < extent[1]; j++) y[j] *= e->scale;
}

static skeep_status embed(struct skeep_op *op, float scale) {
  uint64_t bad = UINT64_MAX;
  struct embed e = {.table = op->v[0], .ids = op->v[1], .y = op->v[2], .scale = scale, .bad = &bad};
  if (!isfinite(scale)) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 4);
  const skeep_layout *table = &e.table->layout;
  e.decode = skeep_decoder(e.table->encoding);
  if (!e.decode) return skeep_fail(SKEEP_ERR_FORMAT, 0, e.table->encoding);
  SKEEP_TRY(operand_dense(e.ids, 1, SKEEP_I32, 1));
  SKEEP_TRY(operand_dense(e.y, 2, SKEEP_F32, 2));
  if (table->rank != 2) return skeep_fail(SKEEP_ERR_SHAPE, 0, table->rank);
  if ((table->block > 1 && table->block_axis != 1) || table->shape[1] % table->block)
    return skeep_fail(SKEEP_ERR_LAYOUT, 0, 1);
  SKEEP_TRY(operand_extent(e.y, 2, 0, e.ids->layout.shape[0]));
  SKEEP_TRY(operand_extent(e.y, 2, 1, table->shape[1]));

  SKEEP_TRY(skeep_pool_run(op->pool, embed_check, &e, 1));
  if (bad == UINT64_MAX) {
    for (int a = 0; a < 4; a++) {
      e.boxes.shape[a] = e.y->layout.shape[a];
      e.boxes.cut[a] = a == 1 ? e.boxes.shape[a] : 1;
    }
    SKEEP_TRY(skeep_boxes_run(&e.boxes, op->pool, embed_box, &e));
  }
  return bad == UINT64_MAX ? skeep_ok() : skeep_fail(SKEEP_ERR_INDEX, 1, bad);
}

skeep_status skeep_embed(skeep_pool *pool, skeep_step *step, const skeep_view *table, const skeep_view *ids,
                         float scale, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_EMBED, pool, step, (const skeep_view *const[]){table, ids, y}, 3);
  return s.code ? s : skeep_op_end(&op, embed(&op, scale));
}
