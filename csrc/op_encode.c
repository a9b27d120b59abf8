/* encode: floats to blocks. */
#include "op_boxes.h"
#include "op_lines.h"
#include "op_operand.h"

#include <float.h>
#include <math.h>

struct encode {
  const skeep_view *x, *y;
  skeep_body_decode *decode, *check; /* of x; of y, to check what was encoded */
  skeep_body_encode *encode;
  float max_magnitude; /* largest magnitude that y can represent, for encodings whose scale does not become infinite */
  int axis;   /* along which blocks run */
  uint64_t *bad; /* flat position of the first element that y cannot hold */
  struct skeep_boxes boxes;
};
struct encode_scratch {
  _Alignas(64) char raw[SKEEP_LINE_CHUNK * 8]; /* cells of a strided line of x, then of y */
  _Alignas(64) float values[SKEEP_LINE_CHUNK + SKEEP_LARGEST_BLOCK], back[SKEEP_LINE_CHUNK];
};
_Static_assert(sizeof(struct encode_scratch) <= SKEEP_MATMUL_SCRATCH, "every pool has that much");

static uint64_t flat_position(const skeep_layout *l, const int64_t index[4]) {
  uint64_t flat = 0;
  for (int a = 0; a < 4; a++) flat = flat * (uint64_t)l->shape[a] + (uint64_t)index[a];
  return flat;
}

/* The first element that is not finite or, when all are finite, the largest one: why the block could not be encoded. */
static int64_t culprit(const float *x, int64_t n) {
  int64_t at = 0;
  for (int64_t j = 0; j < n; j++) {
    if (x[j] - x[j] != 0) return j;
    if (fabsf(x[j]) > fabsf(x[at])) at = j;
  }
  return at;
}

static void encode_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct encode *c = arg;
  struct encode_scratch *s = scratch;
  const int64_t n = extent[c->axis], block = c->y->layout.block;
  const size_t size = skeep_cell_bytes(c->y);
  /* Elements after a bad one need not be encoded. Those before it are, since the first bad one is reported. */
  if (flat_position(&c->x->layout, at) > __atomic_load_n(c->bad, __ATOMIC_RELAXED)) return;
  skeep_line_read(c->x, c->decode, skeep_line_of(c->x, at, c->axis), n, s->raw, s->values);
  const struct skeep_line y = skeep_line_of(c->y, at, c->axis);
  char *out = skeep_line_is_dense(y, size) ? y.first : s->raw;
  c->encode(s->values, (size_t)(n / block), out);
  c->check(out, (size_t)(n / block), s->back);
  for (int64_t j = 0; j < n; j++) {
    if (s->back[j] - s->back[j] == 0 && fabsf(s->values[j]) <= c->max_magnitude) continue;
    int64_t index[4] = {at[0], at[1], at[2], at[3]};
    index[c->axis] += j / block * block + culprit(s->values + j / block * block, block);
    operand_note(c->bad, flat_position(&c->x->layout, index));
    return;
  }
  if (out != y.first) skeep_cells_copy(y, skeep_line_at(out, size), n / block, size);
}

static skeep_status encode(struct skeep_op *op) {
  uint64_t bad = UINT64_MAX;
  struct encode c = {.x = op->v[0], .y = op->v[1], .max_magnitude = FLT_MAX, .bad = &bad};
  SKEEP_TRY(operand_shape(c.y, 1, c.x));
  const uint32_t from = c.x->encoding, to = c.y->encoding;
  c.decode = skeep_decoder(from);
  if (!c.decode || skeep_encoding_find(from)->flags & SKEEP_ENC_FLAG_INTEGER) return skeep_fail(SKEEP_ERR_FORMAT, 0, from);
  c.check = skeep_decoder(to);
  const struct skeep_kernel *k = skeep_kernel_find(SKEEP_OP_ENCODE, to, SKEEP_ANY, (skeep_order){0, 0, 0, 0});
  if (!k || !c.check) return skeep_fail(SKEEP_ERR_NO_KERNEL, 1, (uint64_t)to << 32 | SKEEP_OP_ENCODE);
  c.encode = (skeep_body_encode *)k->body;
  if (to == SKEEP_ENC_NVFP4) c.max_magnitude = 6 * 448; /* its largest code and scale */
  c.axis = skeep_nearest_axis(c.y->layout.block > 1 ? &c.y->layout : &c.x->layout);
  if (c.x->layout.block > 1 && c.x->layout.block_axis != c.axis) return skeep_fail(SKEEP_ERR_LAYOUT, 0, (uint64_t)c.axis);
  for (int a = 0; a < 4; a++) {
    c.boxes.shape[a] = c.x->layout.shape[a];
    c.boxes.cut[a] = a == c.axis ? SKEEP_LINE_CHUNK : 1;
  }
  SKEEP_TRY(skeep_boxes_run(&c.boxes, op->pool, encode_box, &c));
  return bad == UINT64_MAX ? skeep_ok() : skeep_fail(SKEEP_ERR_VALUE, 0, bad);
}

skeep_status skeep_encode(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_ENCODE, pool, step, (const skeep_view *const[]){x, y}, 2);
  return s.code ? s : skeep_op_end(&op, encode(&op));
}
