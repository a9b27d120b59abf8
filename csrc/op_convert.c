/* convert: copies elements to another dense encoding or layout. */
#include "op_boxes.h"
#include "op_lines.h"
#include "op_operand.h"

/* Decoders for values that will be rounded twice, to float and then to F16 or BF16. The first time they round to odd:
 * truncate, and set the last bit when something was lost. Then the second rounding gives the right result, since float
 * has at least two bits more than either format (Boldo & Melquiond 2008). */
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

/* When x and y are contiguous along different axes, tiles are transposed in scratch. A tile is TILE lines of x, each of
 * TILE elements or one block, whichever is more. */
#define TILE 64

/* Elements pass from x to y as floats, or as bytes when both have the same format. */
struct convert {
  const skeep_view *x, *y;
  skeep_body_decode *decode; /* NULL: copy */
  skeep_body_encode *encode; /* NULL: elements are stored as they are */
  int from, to;              /* the axes along which x is read and y written */
  struct skeep_boxes boxes;
};
struct convert_scratch {
  _Alignas(64) char raw[SKEEP_LINE_CHUNK * 8];            /* cells of a strided line; at most 8 bytes per element */
  _Alignas(64) char lines[TILE * SKEEP_LARGEST_BLOCK * 4]; /* one line, or the lines of a tile */
  _Alignas(64) char row[TILE * 8];                 /* what one line of y gets from a tile */
  _Alignas(64) char packed[SKEEP_LINE_CHUNK * 2];             /* F16 or BF16 elements, before they are stored with a stride */
};
_Static_assert(SKEEP_LINE_CHUNK * 4 <= TILE * SKEEP_LARGEST_BLOCK * 4, "a line of floats fits where a tile does");
_Static_assert(TILE * 8 <= SKEEP_LARGEST_BLOCK * 4, "so does a tile of eight-byte elements");
_Static_assert(sizeof(struct convert_scratch) <= SKEEP_MATMUL_SCRATCH, "every pool has that much");

/* n elements of `size` bytes -> a line of y. */
static void write_line(const struct convert *c, struct skeep_line y, char *elements, int64_t n, size_t size, char *packed) {
  if (c->encode) {
    size = skeep_cell_bytes(c->y);
    char *out = skeep_line_is_dense(y, size) ? y.first : packed;
    c->encode((const float *)(void *)elements, (size_t)n, out);
    if (out == y.first) return;
    elements = packed;
  }
  skeep_cells_copy(y, skeep_line_at(elements, size), n, size);
}

static void convert_box(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch) {
  const struct convert *c = arg;
  struct convert_scratch *s = scratch;
  const size_t size = c->decode ? sizeof(float) : skeep_cell_bytes(c->x);
  const int64_t n = extent[c->from];
  int64_t index[4] = {at[0], at[1], at[2], at[3]};
  if (c->from == c->to) {
    const struct skeep_line x = skeep_line_of(c->x, at, c->from), y = skeep_line_of(c->y, at, c->to);
    if (!c->decode) {
      skeep_cells_copy(y, x, n, size);
      return;
    }
    const int straight = !c->encode && skeep_line_is_dense(y, sizeof(float)) && n % c->x->layout.block == 0;
    char *out = straight ? y.first : s->lines;
    skeep_line_read(c->x, c->decode, x, n, s->raw, (float *)(void *)out);
    if (!straight) write_line(c, y, out, n, size, s->packed);
    return;
  }
  const int64_t pitch = c->boxes.cut[c->from] * (int64_t)size;
  for (int64_t l = 0; l < extent[c->to]; l++, index[c->to]++) {
    const struct skeep_line x = skeep_line_of(c->x, index, c->from);
    char *out = s->lines + l * pitch;
    if (c->decode)
      skeep_line_read(c->x, c->decode, x, n, s->raw, (float *)(void *)out);
    else
      skeep_cells_copy(skeep_line_at(out, size), x, n, size);
  }
  struct skeep_line y = skeep_line_of(c->y, at, c->to);
  const int64_t next = c->y->layout.stride[c->from] * (int64_t)skeep_cell_bytes(c->y); /* y is dense */
  for (int64_t i = 0; i < n; i++, y.first += next) {
    skeep_cells_copy(skeep_line_at(s->row, size), (struct skeep_line){s->lines + i * (int64_t)size, pitch, NULL, 0}, extent[c->to], size);
    write_line(c, y, s->row, extent[c->to], size, s->packed);
  }
}

static skeep_status run_convert(struct convert *c, skeep_pool *pool) {
  c->from = skeep_nearest_axis(&c->x->layout);
  c->to = skeep_nearest_axis(&c->y->layout);
  for (int a = 0; a < 4; a++) {
    c->boxes.shape[a] = c->x->layout.shape[a];
    c->boxes.cut[a] = 1;
  }
  const int64_t block = c->x->layout.block;
  c->boxes.cut[c->to] = TILE;
  c->boxes.cut[c->from] = c->from == c->to ? SKEEP_LINE_CHUNK : block > TILE ? block : TILE;
  return skeep_boxes_run(&c->boxes, pool, convert_box, c);
}

skeep_status skeep_elements_copy(const skeep_view *x, const skeep_view *y, skeep_pool *pool) {
  return run_convert(&(struct convert){.x = x, .y = y}, pool);
}

static skeep_status convert(struct skeep_op *op) {
  struct convert c = {.x = op->v[0], .y = op->v[1]};
  const skeep_order row_major = {0, 0, 0, 0};
  SKEEP_TRY(operand_shape(c.y, 1, c.x));
  const uint32_t from = c.x->encoding, to = c.y->encoding;
  if (c.y->layout.block != 1) return skeep_fail(SKEEP_ERR_FORMAT, 1, to);
  if (from != to) {
    c.decode = skeep_decoder(from);
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
