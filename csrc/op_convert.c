/* The operations that move data without computing with it: convert, encode, prepack, quantize_rows, embed. */
#include "blocks.h"
#include "op_operand.h"

#include <float.h>
#include <math.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static uint32_t element_bytes(const skeep_view *v) { return skeep_encoding_find(v->encoding)->block_bytes; }

/* None of these operations has an optional operand. */
static skeep_status all_present(const struct skeep_op *op) {
  for (uint32_t i = 0; i < op->count; i++)
    if (!op->v[i]) return skeep_fail(SKEEP_ERR_ARGUMENT, (int32_t)i, 0);
  return skeep_ok();
}

/* ---- work in units -------------------------------------------------------------------------------
 * The index space of an operation is cut into boxes: `cut[a]` long along axis a, less at its end. Tasks are runs
 * of consecutive boxes, in row-major order, long enough to be worth the waking of a worker. */
#define WORTH_A_TASK 16384 /* elements */
typedef void box_body(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch);
struct boxes {
  int64_t shape[4], cut[4];
  uint64_t count, per_task;
  box_body *body;
  const void *arg;
};

/* First index and extents of box i. */
static void box_at(const struct boxes *b, uint64_t i, int64_t at[4], int64_t extent[4]) {
  for (int a = 3; a >= 0; a--) {
    const uint64_t n = (uint64_t)((b->shape[a] + b->cut[a] - 1) / b->cut[a]);
    at[a] = (int64_t)(i % n) * b->cut[a];
    extent[a] = least(b->cut[a], b->shape[a] - at[a]);
    i /= n;
  }
}

static void boxes_task(void *arg, uint32_t task, void *scratch) {
  const struct boxes *b = arg;
  const uint64_t first = task * b->per_task, end = first + b->per_task;
  for (uint64_t i = first; i < end && i < b->count; i++) {
    int64_t at[4], extent[4];
    box_at(b, i, at, extent);
    b->body(b->arg, at, extent, scratch);
  }
}

/* Calls body(arg, ...) for each box of b->shape cut by b->cut. */
static skeep_status run_boxes(struct boxes *b, skeep_pool *pool, box_body *body, const void *arg) {
  uint64_t size = 1;
  b->body = body;
  b->arg = arg;
  b->count = 1;
  for (int a = 0; a < 4; a++) {
    b->count *= (uint64_t)((b->shape[a] + b->cut[a] - 1) / b->cut[a]);
    size *= (uint64_t)least(b->cut[a], b->shape[a]);
  }
  const uint64_t tasks = 4 * (uint64_t)skeep_pool_threads(pool); /* so that a slow worker delays little */
  b->per_task = (b->count + tasks - 1) / tasks;
  if (b->per_task * size < WORTH_A_TASK) b->per_task = (WORTH_A_TASK + size - 1) / size;
  return skeep_pool_run(pool, boxes_task, b, (uint32_t)((b->count + b->per_task - 1) / b->per_task));
}

/* ---- lines ---------------------------------------------------------------------------------------
 * Within one line of a view (all indices but one fixed) cells are evenly spaced in every order family. */
struct line {
  char *first;
  int64_t step; /* bytes from cell to cell */
};

static struct line line_of(const skeep_view *v, const int64_t at[4], int axis) {
  int64_t index[4] = {at[0], at[1], at[2], at[3]};
  struct line l = {(char *)(uintptr_t)skeep_cell(v, index), element_bytes(v)};
  const int64_t next = at[axis] + v->layout.block;
  if (next < v->layout.shape[axis]) {
    index[axis] = next;
    l.step = skeep_cell(v, index) - l.first;
  }
  return l;
}

/* n cells of `size` bytes from one spacing to another. */
static void move_cells(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, size_t size) {
  if (to_step == (int64_t)size && from_step == (int64_t)size) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
#define MOVE(bytes) \
  for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, bytes)
  switch (size) { /* the usual element sizes as single instructions */
    case 1: MOVE(1); break;
    case 2: MOVE(2); break;
    case 4: MOVE(4); break;
    case 8: MOVE(8); break;
    default: MOVE(size);
  }
#undef MOVE
}

/* Decoding that keeps what a second rounding needs. A value on its way through float to F16 or BF16 is rounded to
 * odd first: cut, and the last bit set when anything was lost; the final rounding is then right, since float has
 * more than two bits more than either (Boldo & Melquiond 2008). */
static float to_odd(float nearest, int above, int below) {
  uint32_t bits;
  memcpy(&bits, &nearest, 4);
  /* nearest is above (below) the exact value in magnitude: step back unless it is odd already */
  if ((above || below) && !(bits & 1u)) bits = above ? bits - 1 : bits + 1;
  memcpy(&nearest, &bits, 4);
  return nearest;
}
static void decode_f64_odd(const void *blocks, size_t count, float *out) {
  for (size_t i = 0; i < count; i++) {
    double v;
    memcpy(&v, (const char *)blocks + 8 * i, 8);
    const float f = (float)v;
    const double a = v < 0 ? -v : v, r = f < 0 ? -(double)f : (double)f;
    out[i] = to_odd(f, r > a, r < a);
  }
}
static void decode_i64_odd(const void *blocks, size_t count, float *out) {
  for (size_t i = 0; i < count; i++) {
    int64_t v;
    memcpy(&v, (const char *)blocks + 8 * i, 8);
    const float f = (float)v;
    const uint64_t a = v < 0 ? -(uint64_t)v : (uint64_t)v, r = (uint64_t)(f < 0 ? -f : f);
    out[i] = to_odd(f, r > a, r < a);
  }
}
static void decode_i32_odd(const void *blocks, size_t count, float *out) {
  for (size_t i = 0; i < count; i++) {
    int32_t v;
    memcpy(&v, (const char *)blocks + 4 * i, 4);
    const double d = v;
    decode_f64_odd(&d, 1, out + i);
  }
}

static skeep_body_decode *decoder(uint32_t encoding) {
  const struct skeep_kernel *k = skeep_kernel_find(SKEEP_OP_DECODE, encoding, SKEEP_ANY, (skeep_order){0, 0, 0, 0});
  return k ? (skeep_body_decode *)k->body : NULL;
}

/* Decodes the n elements of a line that starts at a block; out has room for whole blocks, raw for them undecoded. */
static void read_line(const skeep_view *v, skeep_body_decode *decode, struct line l, int64_t n, char *raw, float *out) {
  const size_t size = element_bytes(v);
  const int64_t blocks = (n + v->layout.block - 1) / v->layout.block;
  if (l.step != (int64_t)size) {
    move_cells(raw, (int64_t)size, l.first, l.step, blocks, size);
    l.first = raw;
  }
  decode(l.first, (size_t)blocks, out);
}

/* ---- convert -------------------------------------------------------------------------------------- */

#define CHUNK 2048 /* elements of a line at a time; a multiple of every block */
/* Where x and y do not run along the same axis, tiles are turned in scratch: so many lines of x, each of so many
 * elements or one block, whichever is more. */
#define TILE 64
#define LARGEST_BLOCK 256

/* Elements reach y as floats, or as bytes when both sides have one format. */
struct convert {
  const skeep_view *x, *y;
  skeep_body_decode *decode; /* NULL: copy */
  skeep_body_encode *encode; /* NULL: y takes elements as they come */
  int from, to;              /* the axes along which x is read and y written */
  struct boxes boxes;
};
struct convert_scratch {
  _Alignas(64) char raw[CHUNK * 8];                /* cells of a strided line; at most 8 bytes per element */
  _Alignas(64) char lines[TILE * LARGEST_BLOCK * 4]; /* one line, or the lines of a tile */
  _Alignas(64) char row[TILE * 8];                 /* what one line of y gets from a tile */
  _Alignas(64) char packed[CHUNK * 2];             /* F16 or BF16 on their way to strided places */
};
_Static_assert(CHUNK * 4 <= TILE * LARGEST_BLOCK * 4, "a line of floats fits where a tile does");
_Static_assert(TILE * 8 <= LARGEST_BLOCK * 4, "so does a tile of eight-byte elements");
_Static_assert(sizeof(struct convert_scratch) <= SKEEP_MATMUL_SCRATCH, "every pool has that much");

/* n elements of `size` bytes -> a line of y. */
static void write_line(const struct convert *c, struct line y, char *elements, int64_t n, size_t size, char *packed) {
  if (c->encode) {
    size = element_bytes(c->y);
    char *out = y.step == (int64_t)size ? y.first : packed;
    c->encode((const float *)(void *)elements, (size_t)n, out);
    if (out == y.first) return;
    elements = packed;
  }
  move_cells(y.first, y.step, elements, (int64_t)size, n, size);
}

static void convert_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct convert *c = arg;
  struct convert_scratch *s = scratch;
  const size_t size = c->decode ? sizeof(float) : element_bytes(c->x);
  const int64_t n = extent[c->from];
  int64_t index[4] = {at[0], at[1], at[2], at[3]};
  if (c->from == c->to) {
    const struct line x = line_of(c->x, at, c->from), y = line_of(c->y, at, c->to);
    if (!c->decode) {
      move_cells(y.first, y.step, x.first, x.step, n, size);
      return;
    }
    const int straight = !c->encode && y.step == sizeof(float) && n % c->x->layout.block == 0;
    char *out = straight ? y.first : s->lines;
    read_line(c->x, c->decode, x, n, s->raw, (float *)(void *)out);
    if (!straight) write_line(c, y, out, n, size, s->packed);
    return;
  }
  const int64_t pitch = c->boxes.cut[c->from] * (int64_t)size;
  for (int64_t l = 0; l < extent[c->to]; l++, index[c->to]++) {
    const struct line x = line_of(c->x, index, c->from);
    char *out = s->lines + l * pitch;
    if (c->decode)
      read_line(c->x, c->decode, x, n, s->raw, (float *)(void *)out);
    else
      move_cells(out, (int64_t)size, x.first, x.step, n, size);
  }
  struct line y = line_of(c->y, at, c->to);
  const int64_t next = c->y->layout.stride[c->from] * (int64_t)element_bytes(c->y); /* y is dense */
  for (int64_t i = 0; i < n; i++, y.first += next) {
    move_cells(s->row, (int64_t)size, s->lines + i * (int64_t)size, pitch, extent[c->to], size);
    write_line(c, y, s->row, extent[c->to], size, s->packed);
  }
}

/* The axis along which cells lie closest, the last of equals. */
static int nearest_axis(const skeep_layout *l) {
  if (l->block > 1) return l->block_axis;
  int best = l->rank ? l->rank - 1 : 0;
  for (int a = best - 1; a >= 0; a--)
    if (l->shape[a] > 1 && (l->shape[best] == 1 || l->stride[a] < l->stride[best])) best = a;
  return best;
}

static skeep_status run_convert(struct convert *c, skeep_pool *pool) {
  c->from = nearest_axis(&c->x->layout);
  c->to = nearest_axis(&c->y->layout);
  for (int a = 0; a < 4; a++) {
    c->boxes.shape[a] = c->x->layout.shape[a];
    c->boxes.cut[a] = 1;
  }
  const int64_t block = c->x->layout.block;
  c->boxes.cut[c->to] = TILE;
  c->boxes.cut[c->from] = c->from == c->to ? CHUNK : block > TILE ? block : TILE;
  return run_boxes(&c->boxes, pool, convert_box, c);
}

static skeep_status convert(struct skeep_op *op) {
  struct convert c = {.x = op->v[0], .y = op->v[1]};
  const skeep_order row_major = {0, 0, 0, 0};
  SKEEP_TRY(all_present(op));
  SKEEP_TRY(operand_shape(c.y, 1, c.x));
  const uint32_t from = c.x->encoding, to = c.y->encoding;
  if (c.y->layout.block != 1) return skeep_fail(SKEEP_ERR_FORMAT, 1, to);
  if (from != to) {
    c.decode = decoder(from);
    if (!c.decode) return skeep_fail(SKEEP_ERR_FORMAT, 0, from);
    if (to == SKEEP_F16 || to == SKEEP_BF16) {
      const struct skeep_kernel *k = skeep_kernel_find(SKEEP_OP_ENCODE, to, SKEEP_ANY, row_major);
      c.encode = k ? (skeep_body_encode *)k->body : NULL;
      if (from == SKEEP_F64) c.decode = decode_f64_odd;
      if (from == SKEEP_I64) c.decode = decode_i64_odd;
      if (from == SKEEP_I32) c.decode = decode_i32_odd;
    }
    if (!c.encode && to != SKEEP_F32) return skeep_fail(SKEEP_ERR_FORMAT, 1, to);
  }
  return run_convert(&c, op->pool);
}

skeep_status skeep_convert(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_CONVERT, pool, step, (const skeep_view *const[]){x, y}, 2);
  return s.code ? s : skeep_op_end(&op, convert(&op));
}

/* ---- encode --------------------------------------------------------------------------------------- */

struct encode {
  const skeep_view *x, *y;
  skeep_body_decode *decode, *check; /* of x, and of y to see what it became */
  skeep_body_encode *encode;
  float most; /* what y's format can hold, where its scales do not become infinite beyond */
  int axis;   /* along which blocks run */
  uint64_t *bad; /* flat position of the first element that y cannot hold */
  struct boxes boxes;
};
struct encode_scratch {
  _Alignas(64) char raw[CHUNK * 8]; /* cells of a strided line of x, then of y */
  _Alignas(64) float values[CHUNK + LARGEST_BLOCK], back[CHUNK];
};
_Static_assert(sizeof(struct encode_scratch) <= SKEEP_MATMUL_SCRATCH, "every pool has that much");

static uint64_t flat_position(const skeep_layout *l, const int64_t index[4]) {
  uint64_t flat = 0;
  for (int a = 0; a < 4; a++) flat = flat * (uint64_t)l->shape[a] + (uint64_t)index[a];
  return flat;
}

/* The first element of a block that is not finite or, where all are, the largest. */
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
  const size_t size = element_bytes(c->y);
  /* What stands behind a bad element need not be encoded; what stands before it is still looked at. */
  if (flat_position(&c->x->layout, at) > __atomic_load_n(c->bad, __ATOMIC_RELAXED)) return;
  read_line(c->x, c->decode, line_of(c->x, at, c->axis), n, s->raw, s->values);
  const struct line y = line_of(c->y, at, c->axis);
  char *out = y.step == (int64_t)size ? y.first : s->raw;
  c->encode(s->values, (size_t)(n / block), out);
  c->check(out, (size_t)(n / block), s->back);
  for (int64_t j = 0; j < n; j++) {
    if (s->back[j] - s->back[j] == 0 && fabsf(s->values[j]) <= c->most) continue;
    int64_t index[4] = {at[0], at[1], at[2], at[3]};
    index[c->axis] += j / block * block + culprit(s->values + j / block * block, block);
    operand_note(c->bad, flat_position(&c->x->layout, index));
    return;
  }
  if (out != y.first) move_cells(y.first, y.step, out, (int64_t)size, n / block, size);
}

static skeep_status encode(struct skeep_op *op) {
  uint64_t bad = UINT64_MAX;
  struct encode c = {.x = op->v[0], .y = op->v[1], .most = FLT_MAX, .bad = &bad};
  SKEEP_TRY(all_present(op));
  SKEEP_TRY(operand_shape(c.y, 1, c.x));
  const uint32_t from = c.x->encoding, to = c.y->encoding;
  c.decode = decoder(from);
  if (!c.decode || skeep_encoding_find(from)->flags & SKEEP_ENC_FLAG_INTEGER) return skeep_fail(SKEEP_ERR_FORMAT, 0, from);
  c.check = decoder(to);
  const struct skeep_kernel *k = skeep_kernel_find(SKEEP_OP_ENCODE, to, SKEEP_ANY, (skeep_order){0, 0, 0, 0});
  if (!k || !c.check) return skeep_fail(SKEEP_ERR_NO_KERNEL, 1, (uint64_t)to << 32 | SKEEP_OP_ENCODE);
  c.encode = (skeep_body_encode *)k->body;
  if (to == SKEEP_ENC_NVFP4) c.most = 6 * 448; /* its largest code and scale */
  c.axis = nearest_axis(c.y->layout.block > 1 ? &c.y->layout : &c.x->layout);
  if (c.x->layout.block > 1 && c.x->layout.block_axis != c.axis) return skeep_fail(SKEEP_ERR_LAYOUT, 0, (uint64_t)c.axis);
  for (int a = 0; a < 4; a++) {
    c.boxes.shape[a] = c.x->layout.shape[a];
    c.boxes.cut[a] = a == c.axis ? CHUNK : 1;
  }
  SKEEP_TRY(run_boxes(&c.boxes, op->pool, encode_box, &c));
  return bad == UINT64_MAX ? skeep_ok() : skeep_fail(SKEEP_ERR_VALUE, 0, bad);
}

skeep_status skeep_encode(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_ENCODE, pool, step, (const skeep_view *const[]){x, y}, 2);
  return s.code ? s : skeep_op_end(&op, encode(&op));
}

/* ---- prepack -------------------------------------------------------------------------------------- */

/* Whole blocks move; a box is a few rows by some blocks, walked block by block so that the side whose rows are
 * interleaved is touched in sequence. */
#define RELAY_ROWS 32
#define RELAY_BLOCKS 64

struct relay {
  const skeep_view *x, *y;
  int row_axis, block_axis;
  struct boxes boxes;
};

static void relay_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct relay *r = arg;
  struct line x[RELAY_ROWS], y[RELAY_ROWS];
  const int64_t block = r->x->layout.block, n = (extent[r->block_axis] + block - 1) / block;
  const size_t size = element_bytes(r->x);
  int64_t index[4] = {at[0], at[1], at[2], at[3]};
  int rows = 0;
  (void)scratch;
  for (int64_t o = 0; o < extent[r->row_axis]; o++, index[r->row_axis]++) {
    x[rows] = line_of(r->x, index, r->block_axis);
    y[rows] = line_of(r->y, index, r->block_axis);
    if (x[rows].step == (int64_t)size && y[rows].step == (int64_t)size)
      memcpy(y[rows].first, x[rows].first, (size_t)n * size);
    else
      rows++;
  }
  for (int64_t b = 0; b < n; b++)
    for (int o = 0; o < rows; o++) memcpy(y[o].first + b * y[o].step, x[o].first + b * x[o].step, size);
}

static skeep_status prepack(struct skeep_op *op) {
  const skeep_view *x = op->v[0], *y = op->v[1];
  SKEEP_TRY(all_present(op));
  SKEEP_TRY(operand_shape(y, 1, x));
  if (x->encoding != y->encoding) return skeep_fail(SKEEP_ERR_FORMAT, 1, y->encoding);
  if (x->layout.block == 1) return run_convert(&(struct convert){.x = x, .y = y}, op->pool);
  const int k = x->layout.block_axis, rx = x->layout.row_axis, ry = y->layout.row_axis;
  if (y->layout.block_axis != k) return skeep_fail(SKEEP_ERR_LAYOUT, 1, (uint64_t)k);
  if (rx >= 0 && ry >= 0 && rx != ry) return skeep_fail(SKEEP_ERR_LAYOUT, 1, (uint64_t)rx);
  struct relay r = {.x = x, .y = y, .block_axis = k, .row_axis = ry >= 0 ? ry : rx >= 0 ? rx : k ? k - 1 : 1};
  if (r.row_axis == k) return skeep_fail(SKEEP_ERR_LAYOUT, ry >= 0, (uint64_t)k);
  for (int a = 0; a < 4; a++) {
    r.boxes.shape[a] = x->layout.shape[a];
    r.boxes.cut[a] = 1;
  }
  r.boxes.cut[r.row_axis] = RELAY_ROWS;
  r.boxes.cut[k] = RELAY_BLOCKS * (int64_t)x->layout.block;
  return run_boxes(&r.boxes, op->pool, relay_box, &r);
}

skeep_status skeep_prepack(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_PREPACK, pool, step, (const skeep_view *const[]){x, y}, 2);
  return s.code ? s : skeep_op_end(&op, prepack(&op));
}

/* ---- quantize_rows -------------------------------------------------------------------------------- */

struct quantize {
  const skeep_view *x, *y;
  skeep_body_quantize_rows *body;
  struct boxes boxes; /* one row each */
};

static void quantize_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct quantize *q = arg;
  (void)extent, (void)scratch;
  q->body((const float *)(const void *)skeep_cell(q->x, at), (size_t)q->x->layout.shape[q->x->layout.rank - 1],
          (char *)(uintptr_t)skeep_cell(q->y, at));
}

static skeep_status quantize_rows(struct skeep_op *op) {
  struct quantize q = {.x = op->v[0], .y = op->v[1]};
  SKEEP_TRY(all_present(op));
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
  return run_boxes(&q.boxes, op->pool, quantize_box, &q);
}

skeep_status skeep_quantize_rows(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_QUANTIZE_ROWS, pool, step, (const skeep_view *const[]){x, y}, 2);
  return s.code ? s : skeep_op_end(&op, quantize_rows(&op));
}

/* ---- embed ---------------------------------------------------------------------------------------- */

struct embed {
  const skeep_view *table, *ids, *y;
  skeep_body_decode *decode;
  float scale;
  uint64_t *bad; /* the first id that is out of range */
  struct boxes boxes; /* one row each */
};

/* The id of row t, -1 when it is out of range. */
static int64_t id_of(const struct embed *e, int64_t t) {
  const int64_t id = operand_i32(e->ids, t);
  if (id >= 0 && id < e->table->layout.shape[0]) return id;
  operand_note(e->bad, (uint64_t)t);
  return -1;
}

/* So that nothing is written when an id is wrong. A region of its own, since the pages of ids may fault as well. */
static void embed_check(void *arg, uint32_t task, void *scratch) {
  const struct embed *e = arg;
  (void)task, (void)scratch;
  for (int64_t t = 0; t < e->ids->layout.shape[0]; t++) (void)id_of(e, t);
}

static void embed_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct embed *e = arg;
  const int64_t id = id_of(e, at[0]); /* it may be another by now */
  skeep_f32_any *y = (skeep_f32_any *)(uintptr_t)skeep_cell(e->y, at);
  if (id < 0) return;
  for (int64_t j = 0; j < extent[1]; j += CHUNK) {
    const struct line row = line_of(e->table, (const int64_t[4]){id, j, 0, 0}, 1);
    read_line(e->table, e->decode, row, least(CHUNK, extent[1] - j), scratch, (float *)(y + j));
  }
  if (e->scale != 1.0f)
    for (int64_t j = 0; j < extent[1]; j++) y[j] *= e->scale;
}

static skeep_status embed(struct skeep_op *op, float scale) {
  uint64_t bad = UINT64_MAX;
  struct embed e = {.table = op->v[0], .ids = op->v[1], .y = op->v[2], .scale = scale, .bad = &bad};
  if (!isfinite(scale)) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 4);
  SKEEP_TRY(all_present(op));
  const skeep_layout *table = &e.table->layout;
  e.decode = decoder(e.table->encoding);
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
    SKEEP_TRY(run_boxes(&e.boxes, op->pool, embed_box, &e));
  }
  return bad == UINT64_MAX ? skeep_ok() : skeep_fail(SKEEP_ERR_INDEX, 1, bad);
}

skeep_status skeep_embed(skeep_pool *pool, skeep_step *step, const skeep_view *table, const skeep_view *ids,
                         float scale, const skeep_view *y) {
  struct skeep_op op;
  const skeep_status s = skeep_op_begin(&op, SKEEP_OP_EMBED, pool, step, (const skeep_view *const[]){table, ids, y}, 3);
  return s.code ? s : skeep_op_end(&op, embed(&op, scale));
}
