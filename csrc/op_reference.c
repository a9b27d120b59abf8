/* The reference: reads single elements, and computes a product from them. It is slow, but right for every format and
 * layout; fast kernels are compared with it. */
#include "blocks.h"
#include "memory_slot.h"
#include "op_lines.h"

#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define SKEEP_ENCODING(id, NAME, name, dtype, elements, bytes, flags, fields, feed) \
  _Static_assert(elements <= SKEEP_LARGEST_BLOCK && bytes <= SKEEP_LARGEST_BLOCK_BYTES, "a block fits the reader");
#include "encodings.def"
#undef SKEEP_ENCODING

/* Which bytes of a block are codes, for encodings with values scale * code + constant (an offset of the codes or a
 * minimum). Decoding a block with these bytes set to zero gives the constants. */
static const struct codes {
  uint16_t encoding, from, to;
} affine[] = {
#define CODES(NAME, name, first, last) \
  {SKEEP_ENC_##NAME, offsetof(skeep_block_##name, first), \
   offsetof(skeep_block_##name, last) + sizeof(((skeep_block_##name *)0)->last)}
    CODES(Q4_0, q4_0, qs, qs),     CODES(Q4_1, q4_1, qs, qs),   CODES(Q5_0, q5_0, qh, qs),
    CODES(Q5_1, q5_1, qh, qs),     CODES(Q2_K, q2_k, qs, qs),   CODES(Q3_K, q3_k, hmask, qs),
    CODES(Q4_K, q4_k, qs, qs),     CODES(Q5_K, q5_k, qh, qs),   CODES(Q6_K, q6_k, ql, qh),
    CODES(TQ1_0, tq1_0, qs, qh),   CODES(TQ2_0, tq2_0, qs, qs), CODES(Q1_0, q1_0, bits, bits),
    CODES(Q2_0, q2_0, qs, qs),
#undef CODES
};

/* Reads elements of one view and remembers the block of the last one. */
struct reader {
  const skeep_view *view;
  skeep_body_decode *decode; /* the portable row; NULL for dense formats and A8 */
  const struct codes *codes; /* NULL when there is no constant or it is not wanted */
  const char *cell; /* with the row in its column, of the block that is decoded in values */
  size_t row;
  uint32_t bytes;
  float values[SKEEP_LARGEST_BLOCK], constants[SKEEP_LARGEST_BLOCK];
};

static skeep_status reader_open(struct reader *r, const skeep_view *v, int split) {
  r->view = v;
  r->decode = NULL;
  r->codes = NULL;
  r->cell = NULL;
  r->bytes = skeep_encoding_find(v->encoding)->block_bytes;
  if (v->layout.block == 1 || v->encoding == SKEEP_ENC_A8) return skeep_ok();
  const struct skeep_kernel *k = skeep_kernel_portable(SKEEP_OP_DECODE, v->encoding);
  if (!k) return skeep_fail(SKEEP_ERR_NO_KERNEL, 0, (uint64_t)v->encoding << 32 | SKEEP_OP_DECODE);
  r->decode = (skeep_body_decode *)k->body;
  for (size_t i = 0; split && i < sizeof affine / sizeof affine[0]; i++)
    if (affine[i].encoding == v->encoding) r->codes = &affine[i];
  return skeep_ok();
}

static int64_t integer_at(const char *p, uint32_t dtype) {
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  switch (dtype) {
  case SKEEP_I8: memcpy(&i8, p, 1); return i8;
  case SKEEP_I16: memcpy(&i16, p, 2); return i16;
  case SKEEP_I32: memcpy(&i32, p, 4); return i32;
  default: memcpy(&i64, p, 8); return i64;
  }
}

static double dense_at(const char *p, uint32_t dtype) {
  float f;
  double d;
  uint16_t h;
  switch (dtype) {
  case SKEEP_F32: memcpy(&f, p, 4); return (double)f;
  case SKEEP_F16: memcpy(&h, p, 2); return (double)skeep_f16_to_f32(h);
  case SKEEP_BF16: memcpy(&h, p, 2); return (double)skeep_bf16_to_f32(h);
  case SKEEP_F64: memcpy(&d, p, 8); return d;
  default: return (double)integer_at(p, dtype);
  }
}

/* The element at index. *constant gets the part of its value that does not depend on the code. */
static double element(struct reader *r, const int64_t *index, double *constant) {
  const skeep_view *v = r->view;
  *constant = 0;
  if (v->layout.block == 1) return dense_at(skeep_cell(v, index), v->dtype);
  const size_t at = (size_t)(index[v->layout.block_axis] % v->layout.block);
  if (v->encoding == SKEEP_ENC_A8) { /* exact in double, where a decoded float would be rounded */
    const skeep_block_a8 *b = (const skeep_block_a8 *)(const void *)skeep_cell(v, index);
    return (double)b->d[at / 32] * b->qs[at];
  }
  const struct skeep_line line = skeep_line_of(v, index, v->layout.block_axis);
  if (line.first != r->cell || line.row != r->row) {
    char block[SKEEP_LARGEST_BLOCK_BYTES];
    skeep_cells_copy(skeep_line_at(block, r->bytes), line, 1, r->bytes);
    r->cell = line.first;
    r->row = line.row;
    r->decode(block, 1, r->values);
    if (r->codes) {
      memset(block + r->codes->from, 0, (size_t)(r->codes->to - r->codes->from));
      r->decode(block, 1, r->constants);
    }
  }
  if (r->codes) *constant = (double)r->constants[at];
  return (double)r->values[at];
}

/* ---- one element ---- */

struct get {
  struct reader reader;
  int64_t index[4]; /* the caller gives one number per axis, a line wants all four */
  double value;
  int64_t integer;
};

static void get_value(void *p) {
  struct get *g = p;
  double constant;
  g->value = element(&g->reader, g->index, &constant);
}

static void get_integer(void *p) {
  struct get *g = p;
  g->integer = integer_at(skeep_cell(g->reader.view, g->index), g->reader.view->dtype);
}

static skeep_status get(const skeep_view *view, const int64_t *index, const void *out, int integer, struct get *g) {
  struct skeep_op op;
  skeep_status st;
  if (!view) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  if (!out) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
  st = skeep_op_hold(&op, NULL, NULL, &view, 1, 0, 0);
  if (st.code != SKEEP_OK) return st;
  if (!index && view->layout.rank) st = skeep_fail(SKEEP_ERR_ARGUMENT, -1, 1);
  memset(g->index, 0, sizeof g->index);
  for (uint32_t a = 0; st.code == SKEEP_OK && a < view->layout.rank; a++) {
    if (index[a] < 0 || index[a] >= view->layout.shape[a]) st = skeep_fail(SKEEP_ERR_INDEX, 0, a);
    g->index[a] = index[a];
  }
  if (st.code == SKEEP_OK && integer && !(skeep_encoding_find(view->encoding)->flags & SKEEP_ENC_FLAG_INTEGER))
    st = skeep_fail(SKEEP_ERR_FORMAT, 0, view->encoding);
  if (st.code == SKEEP_OK) st = reader_open(&g->reader, view, 0);
  if (st.code == SKEEP_OK) {
    const uint64_t fault = skeep_guarded(integer ? get_integer : get_value, g);
    if (fault) st = skeep_fail(SKEEP_ERR_FAULT, 0, fault);
  }
  return skeep_op_end(&op, st);
}

skeep_status skeep_get(const skeep_view *view, const int64_t *index, double *value) {
  struct get g;
  const skeep_status st = get(view, index, value, 0, &g);
  if (st.code == SKEEP_OK) *value = g.value;
  return st;
}

skeep_status skeep_get_i64(const skeep_view *view, const int64_t *index, int64_t *value) {
  struct get g;
  const skeep_status st = get(view, index, value, 1, &g);
  if (st.code == SKEEP_OK) *value = g.integer;
  return st;
}

/* ---- all elements ---- */

struct get_all {
  struct reader reader;
  float *values;
};

static void get_values(void *p) {
  struct get_all *g = p;
  const skeep_layout *l = &g->reader.view->layout;
  int64_t index[4] = {0};
  double constant;
  for (int a; ; ) {
    *g->values++ = (float)element(&g->reader, index, &constant);
    for (a = (int)l->rank - 1; a >= 0 && ++index[a] == l->shape[a]; a--) index[a] = 0;
    if (a < 0) return;
  }
}

skeep_status skeep_get_all(const skeep_view *view, float *values) {
  struct skeep_op op;
  struct get_all g = {.values = values};
  skeep_status st = skeep_op_hold(&op, NULL, NULL, &view, 1, 0, 0);
  if (st.code != SKEEP_OK) return st;
  st = reader_open(&g.reader, view, 0);
  if (st.code == SKEEP_OK) {
    const uint64_t fault = skeep_guarded(get_values, &g);
    if (fault) st = skeep_fail(SKEEP_ERR_FAULT, 0, fault);
  }
  return skeep_op_end(&op, st);
}

/* ---- a product ---- */

struct product {
  struct reader x, w;
  const skeep_view *y, *magnitude;
};

static void put_f32(const skeep_view *v, const int64_t *index, double value) {
  const float f = (float)value;
  memcpy((void *)(uintptr_t)skeep_cell(v, index), &f, sizeof f);
}

static void product(void *arg) {
  struct product *p = arg;
  const int64_t tokens = p->x.view->layout.shape[0], n = p->x.view->layout.shape[1], out = p->w.view->layout.shape[0];
  for (int64_t t = 0; t < tokens; t++) {
    for (int64_t o = 0; o < out; o++) {
      double sum = 0, magnitude = 0, constant, none;
      for (int64_t i = 0; i < n; i++) {
        const double x = element(&p->x, (const int64_t[4]){t, i}, &none);
        const double w = element(&p->w, (const int64_t[4]){o, i}, &constant);
        sum += x * w;
        /* Both terms as they are before they cancel. */
        magnitude += fabs(x) * (fabs(w - constant) + fabs(constant));
      }
      put_f32(p->y, (const int64_t[4]){t, o}, sum);
      if (p->magnitude) put_f32(p->magnitude, (const int64_t[4]){t, o}, magnitude);
    }
  }
}

static skeep_status product_check(const skeep_view *const v[4]) {
  const int64_t want[4][2] = {{v[0]->layout.shape[0], v[0]->layout.shape[1]},
                              {v[1]->layout.shape[0], v[0]->layout.shape[1]},
                              {v[0]->layout.shape[0], v[1]->layout.shape[0]},
                              {v[0]->layout.shape[0], v[1]->layout.shape[0]}};
  for (int32_t i = 0; i < 4; i++) {
    if (!v[i]) continue;
    if (v[i]->layout.rank != 2) return skeep_fail(SKEEP_ERR_SHAPE, i, v[i]->layout.rank);
    for (uint32_t a = 0; a < 2; a++)
      if (v[i]->layout.shape[a] != want[i][a]) return skeep_fail(SKEEP_ERR_SHAPE, i, a);
    if (i >= 2 && v[i]->encoding != SKEEP_F32) return skeep_fail(SKEEP_ERR_FORMAT, i, v[i]->encoding);
  }
  return skeep_ok();
}

skeep_status skeep_reference_matmul_t(const skeep_view *x, const skeep_view *w, const skeep_view *y,
                                      const skeep_view *magnitude) {
  const skeep_view *const v[4] = {x, w, y, magnitude};
  struct skeep_op op;
  struct product p;
  for (int32_t i = 0; i < 3; i++)
    if (!v[i]) return skeep_fail(SKEEP_ERR_ARGUMENT, i, 0);
  skeep_status st = skeep_op_hold(&op, NULL, NULL, v, 4, 1u << 2 | 1u << 3, 0);
  if (st.code != SKEEP_OK) return st;
  st = product_check(v);
  if (st.code == SKEEP_OK) st = reader_open(&p.x, x, 0);
  if (st.code == SKEEP_OK) {
    st = reader_open(&p.w, w, magnitude != NULL);
    if (st.code != SKEEP_OK) st.operand = 1;
  }
  if (st.code == SKEEP_OK) {
    p.y = y;
    p.magnitude = magnitude;
    const uint64_t fault = skeep_guarded(product, &p);
    if (fault) st = skeep_fail(SKEEP_ERR_FAULT, -1, fault);
  }
  return skeep_op_end(&op, st);
}
