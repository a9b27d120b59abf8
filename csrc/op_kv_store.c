/* kv_store: stores keys and values in the caches, which are ring buffers for each sequence. */
#include "op_positions.h"

#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

struct kv_store {
  const skeep_view *in[2], *positions, *sequences, *cache[2]; /* keys, values */
  skeep_body_kv_store *body;
  int64_t tokens, heads, capacity, size;
  struct tasks tasks; /* a unit: one head of keys or of values, of all tokens whose indices were read */
  skeep_status status;
  struct indices *now;
  uint64_t too_large[2]; /* flat position of the first key and value that the cache cannot hold, or UINT64_MAX */
};

/* How many tokens from t on have the sequence of t and consecutive positions. */
static int64_t run_length(const struct kv_store *s, int64_t t) {
  const int64_t sequence = sequence_of(s->sequences, t), position = operand_i32(s->positions, t);
  int64_t n = 1;
  while (t + n < s->tokens && sequence_of(s->sequences, t + n) == sequence &&
         operand_i32(s->positions, t + n) == position + n)
    n++;
  return n;
}

/* Checks, before anything is written, that positions and sequences are in range and no cache row is written twice. A
 * run of consecutive positions is an arc of the ring; two arcs overlap when one begins within the other. */
static void kv_store_check(void *arg) {
  struct kv_store *s = arg;
  for (s->now->first = 0; s->now->first < s->tokens; s->now->first += s->now->tokens) {
    s->status = indices_read(s->now, s->positions, s->sequences, s->cache[0]->layout.shape[0], 2);
    if (s->status.code != SKEEP_OK) return;
  }
  for (int64_t a = 0, a_length; a < s->tokens; a += a_length) {
    a_length = run_length(s, a);
    int64_t twice = a_length > s->capacity ? a + s->capacity : -1;
    for (int64_t b = a + a_length, b_length; twice < 0 && b < s->tokens; b += b_length) {
      b_length = run_length(s, b);
      if (sequence_of(s->sequences, a) != sequence_of(s->sequences, b)) continue;
      const int64_t ahead = (operand_i32(s->positions, b) - operand_i32(s->positions, a)) % s->capacity;
      const int64_t b_in_a = ahead < 0 ? ahead + s->capacity : ahead, a_in_b = b_in_a ? s->capacity - b_in_a : 0;
      if (b_in_a < a_length)
        twice = b;
      else if (a_in_b < b_length)
        twice = b + a_in_b;
    }
    if (twice < 0) continue;
    s->status = skeep_fail(SKEEP_ERR_INDEX, 2, (uint64_t)twice);
    return;
  }
}

static void kv_store_read(void *arg) {
  struct kv_store *s = arg;
  s->status = indices_read(s->now, s->positions, s->sequences, s->cache[0]->layout.shape[0], 2);
}

/* Searches a row of in[which] in which an element became infinite. Elements that were infinite or NaN before are stored
 * as they are; a finite one is an error. */
static void kv_store_refuse(struct kv_store *s, uint32_t which, int64_t t, int64_t h) {
  const skeep_view *in = s->in[which];
  const char *row = operand_start(in, 4) + t * operand_step(in, 0, 4) + h * operand_step(in, 1, 4);
  const float limit = s->cache[which]->encoding == SKEEP_F16 ? SKEEP_F16_LIMIT : SKEEP_BF16_LIMIT;
  for (int64_t i = 0; i < in->layout.shape[2]; i++) {
    float x;
    memcpy(&x, row + 4 * i, sizeof x);
    if (!isfinite(x) || fabsf(x) < limit) continue;
    operand_note(&s->too_large[which], (uint64_t)((t * s->heads + h) * in->layout.shape[2] + i));
    return;
  }
}

static void kv_store_task(void *arg, uint32_t task, void *scratch) {
  struct kv_store *s = arg;
  (void)scratch;
  for (uint64_t unit = tasks_begin(&s->tasks, task); unit < tasks_end(&s->tasks, task); unit++) {
    const skeep_view *in = s->in[unit & 1], *cache = s->cache[unit & 1];
    const int64_t h = (int64_t)(unit >> 1);
    for (int64_t i = 0; i < s->now->tokens; i++) {
      const int64_t t = s->now->first + i;
      if (s->body(operand_start(in, 4) + t * operand_step(in, 0, 4) + h * operand_step(in, 1, 4),
                  (size_t)in->layout.shape[2],
                  operand_start(cache, s->size) + s->now->sequence[i] * operand_step(cache, 0, s->size) +
                      h * operand_step(cache, 1, s->size) +
                      s->now->position[i] % s->capacity * operand_step(cache, 2, s->size)))
        kv_store_refuse(s, (uint32_t)(unit & 1), t, h);
    }
  }
}

static skeep_status kv_store(struct skeep_op *op) {
  const struct skeep_kernel *kernel;
  struct indices now; /* separate, since an initializer of the struct would clear all of it */
  struct kv_store s = {{op->v[0], op->v[1]},
                       op->v[2],
                       op->v[3],
                       {op->v[4], op->v[5]},
                       .status = skeep_ok(),
                       .now = &now,
                       .too_large = {UINT64_MAX, UINT64_MAX}};
  SKEEP_TRY(caches_check(op, SKEEP_OP_KV_STORE, 4, &kernel));
  for (int32_t i = 0; i < 2; i++) {
    SKEEP_TRY(operand_dense(s.in[i], i, SKEEP_F32, 3));
    SKEEP_TRY(operand_extent(s.in[i], i, 0, s.in[0]->layout.shape[0]));
    SKEEP_TRY(operand_extent(s.in[i], i, 1, s.cache[i]->layout.shape[1]));
    SKEEP_TRY(operand_extent(s.in[i], i, 2, s.cache[i]->layout.shape[3]));
  }
  s.tokens = s.in[0]->layout.shape[0];
  s.heads = s.in[0]->layout.shape[1];
  s.capacity = s.cache[0]->layout.shape[2];
  s.size = skeep_encoding_find(s.cache[0]->encoding)->block_bytes;
  s.body = (skeep_body_kv_store *)kernel->body;
  SKEEP_TRY(indices_check(s.positions, s.sequences, 2, s.tokens));
  SKEEP_TRY(guarded(kv_store_check, &s));
  SKEEP_TRY(s.status);
  const uint64_t size = (uint64_t)(min_i64(s.tokens, INDICES) * s.in[0]->layout.shape[2]);
  s.tasks = tasks_of(op->pool, 2 * (uint64_t)s.heads, size, 16384, TASKS_EVEN);
  for (now.first = 0; now.first < s.tokens; now.first += now.tokens) {
    SKEEP_TRY(guarded(kv_store_read, &s));
    SKEEP_TRY(s.status);
    SKEEP_TRY(skeep_pool_run(op->pool, kv_store_task, &s, s.tasks.count));
  }
  for (int32_t i = 0; i < 2; i++)
    if (s.too_large[i] != UINT64_MAX) return skeep_fail(SKEEP_ERR_VALUE, i, s.too_large[i]);
  return skeep_ok();
}

skeep_status skeep_kv_store(skeep_pool *pool, skeep_step *step, const skeep_view *k, const skeep_view *v,
                            const skeep_view *positions, const skeep_view *sequences, const skeep_view *k_cache,
                            const skeep_view *v_cache) {
  struct skeep_op op;
  const skeep_view *const views[] = {k, v, positions, sequences, k_cache, v_cache};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_KV_STORE, pool, step, views, 6));
  return skeep_op_end(&op, kv_store(&op));
}
