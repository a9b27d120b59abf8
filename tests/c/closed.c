/* Every operation refuses a stale view, in every operand, before it accesses a byte: after a close, when the slot is
 * used by another storage, and after the release of the view's mark; without a step and within one. */
#include "check.h"

enum { MAX_OPERANDS = 10 };
typedef skeep_status call(skeep_pool *pool, skeep_step *step, const skeep_view *const *v);

#define CALL(name, ...)                                                                             \
  static skeep_status name(skeep_pool *pool, skeep_step *step, const skeep_view *const *v) { \
    return skeep_##name(pool, step, __VA_ARGS__);                                                   \
  }
CALL(convert, v[0], v[1])
CALL(encode, v[0], v[1])
CALL(prepack, v[0], v[1])
CALL(quantize_rows, v[0], v[1])
CALL(matmul_t, v[0], v[1], v[2])
CALL(project, v[0], 3, v + 1, v + 4, v + 7)
CALL(embed, v[0], v[1], 1.5f, v[2])
CALL(norm, v[0], v[1], v[2], v[3], 1e-5f, v[4], v[5])
CALL(rope, v[0], v[1], v[2],
     (skeep_rope_params){.form = SKEEP_ROPE_NEOX, .dims = 4, .base = 10000, .scale = 1, .attn_factor = 1}, v[3])
CALL(kv_store, v[0], v[1], v[2], v[3], v[4], v[5])
CALL(attend, v[0], v[1], v[2], v[3], v[4], (skeep_attend_params){.scale = 0.5f}, v[5])
CALL(glu, v[0], v[1], SKEEP_GLU_SILU, v[2])
CALL(add, v[0], v[1], v[2])
CALL(mul, v[0], v[1], v[2])
CALL(softmax, v[0], 1, v[1])
CALL(softcap, v[0], 30, v[1])

/* These take neither pool nor step. */
static skeep_status reference(skeep_pool *pool, skeep_step *step, const skeep_view *const *v) {
  (void)pool, (void)step;
  return skeep_reference_matmul_t(v[0], v[1], v[2], v[3]);
}
static skeep_status get(skeep_pool *pool, skeep_step *step, const skeep_view *const *v) {
  double value;
  (void)pool, (void)step;
  return skeep_get(v[0], (const int64_t[]){1, 33}, &value);
}
static skeep_status get_i64(skeep_pool *pool, skeep_step *step, const skeep_view *const *v) {
  int64_t value;
  (void)pool, (void)step;
  return skeep_get_i64(v[0], (const int64_t[]){1}, &value);
}
static skeep_status check(skeep_pool *pool, skeep_step *step, const skeep_view *const *v) {
  (void)pool, (void)step;
  return skeep_view_check(v[0]);
}
static skeep_status choose(skeep_pool *pool, skeep_step *step, const skeep_view *const *v) {
  uint32_t row;
  (void)pool, (void)step;
  return skeep_select(SKEEP_OP_MATMUL_T, v, 3, &row);
}

struct operand {
  uint32_t encoding, rank;
  int64_t shape[4];
};
#define F32_2(a, b) {SKEEP_F32, 2, {a, b}}
#define F32_1(a) {SKEEP_F32, 1, {a}}
#define I32_1(a) {SKEEP_I32, 1, {a}}

static const struct op {
  const char *name;
  call *call;
  uint32_t count, outputs; /* outputs: bit i = operand i is written */
  int bare;                /* takes no step */
  struct operand operand[MAX_OPERANDS];
} ops[] = {
    {"convert", convert, 2, 2, 0, {{SKEEP_ENC_Q4_0, 2, {3, 96}}, F32_2(3, 96)}},
    {"encode", encode, 2, 2, 0, {F32_2(3, 96), {SKEEP_ENC_Q4_0, 2, {3, 96}}}},
    {"prepack", prepack, 2, 2, 0, {{SKEEP_ENC_Q8_0, 2, {3, 96}}, {SKEEP_ENC_Q8_0, 2, {3, 96}}}},
    {"quantize_rows", quantize_rows, 2, 2, 0, {F32_2(3, 96), {SKEEP_ENC_A8, 2, {3, 96}}}},
    {"matmul_t", matmul_t, 3, 4, 0, {F32_2(2, 96), {SKEEP_ENC_Q4_0, 2, {3, 96}}, F32_2(2, 3)}},
    {"matmul_t on codes", matmul_t, 3, 4, 0, {{SKEEP_ENC_A8, 2, {2, 96}}, {SKEEP_ENC_Q8_0, 2, {3, 96}}, F32_2(2, 3)}},
    {"project", project, 10, 7u << 7, 0,
     {F32_2(2, 96), {SKEEP_ENC_Q4_0, 2, {3, 96}}, {SKEEP_ENC_Q8_0, 2, {4, 96}}, F32_2(5, 96), F32_1(3), F32_1(4),
      F32_1(5), F32_2(2, 3), F32_2(2, 4), F32_2(2, 5)}},
    {"embed", embed, 3, 4, 0, {{SKEEP_ENC_Q4_0, 2, {5, 96}}, I32_1(3), F32_2(3, 96)}},
    {"norm", norm, 6, 3u << 4, 0, {F32_2(2, 9), F32_2(2, 9), F32_1(9), F32_2(2, 9), F32_2(2, 9), F32_2(2, 9)}},
    {"rope", rope, 4, 8, 0, {{SKEEP_F32, 3, {3, 2, 6}}, I32_1(3), F32_1(2), {SKEEP_F32, 3, {3, 2, 6}}}},
    {"kv_store", kv_store, 6, 3u << 4, 0,
     {{SKEEP_F32, 3, {3, 2, 8}}, {SKEEP_F32, 3, {3, 2, 8}}, I32_1(3), I32_1(3), {SKEEP_F16, 4, {3, 2, 32, 8}},
      {SKEEP_F16, 4, {3, 2, 32, 8}}}},
    {"attend", attend, 6, 1u << 5, 0,
     {{SKEEP_F32, 3, {3, 4, 8}}, {SKEEP_F32, 4, {3, 2, 32, 8}}, {SKEEP_F32, 4, {3, 2, 32, 8}}, I32_1(3), I32_1(3),
      {SKEEP_F32, 3, {3, 4, 8}}}},
    {"glu", glu, 3, 4, 0, {F32_2(2, 9), F32_2(2, 9), F32_2(2, 9)}},
    {"add", add, 3, 4, 0, {F32_2(2, 9), F32_1(9), F32_2(2, 9)}},
    {"mul", mul, 3, 4, 0, {F32_2(2, 9), F32_2(2, 9), F32_2(2, 9)}},
    {"softmax", softmax, 2, 2, 0, {F32_2(2, 9), F32_2(2, 9)}},
    {"softcap", softcap, 2, 2, 0, {F32_2(2, 9), F32_2(2, 9)}},
    {"reference", reference, 4, 3u << 2, 1, {F32_2(2, 96), {SKEEP_ENC_Q4_0, 2, {3, 96}}, F32_2(2, 3), F32_2(2, 3)}},
    {"get", get, 1, 0, 1, {{SKEEP_ENC_Q4_0, 2, {3, 96}}}},
    {"get_i64", get_i64, 1, 0, 1, {I32_1(3)}},
    {"view_check", check, 1, 0, 1, {F32_2(2, 9)}},
    {"select", choose, 3, 0, 1, {F32_2(2, 96), {SKEEP_ENC_Q4_0, 2, {3, 96}}, F32_2(2, 3)}},
};

/* The operands of one operation, each in its own storage, with valid contents. Outputs are filled with 0xa5 before. */
struct operands {
  const struct op *op;
  skeep_storage root[MAX_OPERANDS], mark[MAX_OPERANDS];
  skeep_view view[MAX_OPERANDS];
  const skeep_view *list[MAX_OPERANDS];
};

/* Checks that no output has been written. `but` has been freed and is not read. */
static int untouched(const struct operands *o, uint32_t but) {
  for (uint32_t i = 0; i < o->op->count; i++)
    for (uint64_t k = 0; i != but && (o->op->outputs >> i & 1) && k < o->view[i].bytes; k++)
      if (check_bytes(&o->view[i])[k] != (char)0xa5) return 0;
  return 1;
}

static void fill(const skeep_view *v) {
  char *p = check_bytes(v);
  memset(p, 0, v->bytes);
  if (v->encoding == SKEEP_I32)
    for (int32_t i = 0; i < v->layout.shape[0]; i++) memcpy(p + 4 * i, &i, 4); /* ids, positions, sequences */
  if (v->encoding == SKEEP_F32)
    for (uint64_t i = 0; i < v->bytes / 4; i++) memcpy(p + 4 * i, &(float){1.0f + (float)(i % 7)}, 4);
}

/* marked: each view is made from a mark of its storage and begins at an odd address. */
static void make(struct operands *o, const struct op *op, int marked) {
  o->op = op;
  for (uint32_t i = 0; i < op->count; i++) {
    const struct operand *d = &op->operand[i];
    uint64_t bytes;
    NEED(skeep_bytes_of(d->encoding, d->rank, d->shape, &bytes).code == SKEEP_OK);
    NEED(skeep_storage_allocate(bytes + 1, 0, &o->root[i]).code == SKEEP_OK);
    if (marked) NEED(skeep_mark_open(o->root[i], &o->mark[i]).code == SKEEP_OK);
    NEED(skeep_view_of(marked ? o->mark[i] : o->root[i], marked ? 1 : 0, d->encoding, d->rank, d->shape, &o->view[i])
             .code == SKEEP_OK);
    if (op->outputs >> i & 1)
      memset(check_bytes(&o->view[i]), 0xa5, o->view[i].bytes);
    else
      fill(&o->view[i]);
    o->list[i] = &o->view[i];
  }
}

/* Closes the storages of all operands except `but`, which is closed already. */
static void unmake(struct operands *o, uint32_t but) {
  for (uint32_t i = 0; i < o->op->count; i++)
    if (i != but) CHECK_OK(skeep_storage_close(o->root[i], NULL));
}

static skeep_status run(const struct op *op, skeep_pool *pool, skeep_step *step, const struct operands *o) {
  if (!step) return op->call(pool, NULL, o->list);
  CHECK_OK(skeep_step_begin(step));
  const skeep_status st = op->call(pool, step, o->list);
  CHECK_FAILS(skeep_step_end(step), st.code);
  return st;
}

static void test_op(const struct op *op, skeep_pool *pool, skeep_step *step) {
  struct operands o;
  skeep_storage other;
  const uint64_t before = checks_failed;
  for (int marked = 0; marked < 2; marked++) {
    make(&o, op, marked);
    CHECK_OK(run(op, pool, step, &o)); /* with all of them live it runs, and writes */
    CHECK(!op->outputs || !untouched(&o, MAX_OPERANDS));
    unmake(&o, MAX_OPERANDS);
    for (uint32_t i = 0; i < op->count; i++) {
      make(&o, op, marked);
      if (marked)
        CHECK_OK(skeep_mark_release(o.mark[i], NULL));
      else
        CHECK_OK(skeep_storage_close(o.root[i], NULL));
      for (int reused = 0; reused < 2; reused++) {
        const skeep_status st = run(op, pool, step, &o);
        CHECK_FAILS_ON(st, SKEEP_ERR_CLOSED, (int32_t)i);
        CHECK(st.detail == o.view[i].storage);
        CHECK(untouched(&o, marked ? MAX_OPERANDS : i));
        if (!reused) NEED(skeep_storage_allocate(1 << 16, 0, &other).code == SKEEP_OK); /* takes the free slot */
      }
      CHECK_OK(skeep_storage_close(other, NULL));
      unmake(&o, marked ? MAX_OPERANDS : i);
    }
  }
  if (checks_failed != before) fprintf(stderr, "  in %s%s\n", op->name, step ? " within a step" : "");
}

/* Functions that take handles. */
static void test_handles(void) {
  skeep_storage s, mark, out, renewed;
  skeep_storage_info info;
  skeep_view v;
  uint64_t number;
  static const int64_t one[] = {1};
  NEED(skeep_storage_allocate(64, 0, &s).code == SKEEP_OK);
  NEED(skeep_mark_open(s, &mark).code == SKEEP_OK);
  CHECK_OK(skeep_storage_close(s, NULL));
  const skeep_storage stale[] = {s, mark};
  for (int i = 0; i < 2; i++) {
    const skeep_storage h = renewed = stale[i];
    CHECK_FAILS(skeep_storage_info_of(h, &info), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_verify(h), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_advise(h, 0, 1, SKEEP_ADVICE_NORMAL), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_resident(h, &number), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_close(h, NULL), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_try_close(h, NULL), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_left(h, &number), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_mark_open(h, &out), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_reset(h, NULL), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_pin(h, &out), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_view_of(h, 0, SKEEP_F32, 1, one, &v), SKEEP_ERR_CLOSED);
  }
  CHECK_FAILS(skeep_mark_release(mark, NULL), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_mark_renew(&renewed, NULL), SKEEP_ERR_CLOSED);
}

int main(void) {
  skeep_pool *pool;
  skeep_step *step;
  skeep_counters before, after;
  skeep_counters_read(&before);
  NEED(skeep_pool_create(2, 0, &pool).code == SKEEP_OK);
  NEED(skeep_step_create(0, 0, &step).code == SKEEP_OK);
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    test_op(&ops[i], pool, NULL);
    if (!ops[i].bare) test_op(&ops[i], pool, step);
  }
  test_handles();
  skeep_step_destroy(step);
  skeep_pool_destroy(pool);
  skeep_counters_read(&after);
  CHECK(before.storages == after.storages && before.offheap_bytes == after.offheap_bytes);
  return check_result();
}
