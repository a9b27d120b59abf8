/* The operations that know positions: rope, kv_store, attend. */
#include "op_operand.h"

#include <math.h>
#include <stddef.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Runs check(arg) where a fault of a mapped page is survived. */
static skeep_status guarded(void (*check)(void *arg), void *arg) {
  const uint64_t fault = skeep_guarded(check, arg);
  return fault ? skeep_fail(SKEEP_ERR_FAULT, -1, fault) : skeep_ok();
}

/* ---- rope ---- */

#define FASTEST 2048.0 /* radians from one position to the next, at most */
#define ANGLE 0x1p31   /* no angle reaches it: reduced to a quarter turn it is right to 10^-6 below */
#define POSITIONS 64   /* of a task at a time */

struct rope {
  const skeep_view *x, *positions, *factors, *y;
  skeep_rope_params params;
  skeep_body_rope *body;
  int64_t tokens, per_task;
  double fastest; /* of all pairs, without factors */
  uint64_t bad_position, bad_factor; /* the first that is out of range */
};

/* The pair whose angle makes `rotations` turns within the original context: of (context * base^(-2i/dims)) / 2pi =
 * rotations, solved for i (Peng et al. 2023, section 3.2, as their implementation has it: a ramp over i between two
 * such pairs, rounded outwards). */
static double rope_pair(const skeep_rope_params *p, float rotations) {
  const double turns = p->original_context / ((double)rotations * 2 * 3.14159265358979323846);
  return p->dims * log(turns) / (2 * log((double)p->base));
}

/* theta[0 .. dims/2), padded with 0 to whole eights, unless it is NULL. Returns the largest magnitude, or infinity and a
 * note of the factor to blame. Powers of the base by products: their relative error stays below dims * 2^-53, so
 * that an angle of 10^6 is right to 10^-7. */
static double rope_theta(struct rope *r, double *theta) {
  const skeep_rope_params *p = &r->params;
  const size_t pairs = p->dims / 2, padded = (pairs + 7) / 8 * 8;
  double low = 0, high = 0, power = 1, fastest = 0;
  const double ratio = pow((double)p->base, -2.0 / p->dims);
  if (p->ext_factor != 0) {
    low = fmax(floor(rope_pair(p, p->beta_fast)), 0);
    high = fmin(ceil(rope_pair(p, p->beta_slow)), (double)p->dims - 1);
  }
  for (size_t i = 0; i < padded; i++, power *= ratio) {
    double mix = 0, turn = 0;
    if (p->ext_factor != 0) {
      const double ramp = fmin(fmax(((double)i - low) / fmax(high - low, 1e-3), 0), 1);
      mix = (double)p->ext_factor * (1 - ramp);
    }
    if (i < pairs) turn = power * ((1 - mix) * (double)p->scale + mix);
    if (i < pairs && r->factors) {
      float factor;
      memcpy(&factor, operand_start(r->factors, 4) + (int64_t)i * operand_step(r->factors, 0, 4), sizeof factor);
      turn /= (double)factor;
      if (!(fabs(turn) <= FASTEST)) {
        operand_note(&r->bad_factor, i);
        turn = INFINITY;
      }
    }
    fastest = fmax(fastest, fabs(turn));
    if (theta) theta[i] = turn;
  }
  return fastest;
}

/* Position t, -1 when it is negative or takes an angle too far. */
static int64_t position_of(struct rope *r, int64_t t, double fastest) {
  const int64_t position = operand_i32(r->positions, t);
  if (position >= 0 && (double)position * fastest < ANGLE) return position;
  operand_note(&r->bad_position, (uint64_t)t);
  return -1;
}

/* So that nothing is written when an index or factor is wrong. */
static void rope_check(void *arg) {
  struct rope *r = arg;
  const double fastest = r->factors ? rope_theta(r, NULL) : r->fastest;
  for (int64_t t = 0; t < r->tokens && r->bad_factor == UINT64_MAX; t++) (void)position_of(r, t, fastest);
}

static skeep_status rope_bad(const struct rope *r) {
  if (r->bad_factor != UINT64_MAX) return skeep_fail(SKEEP_ERR_VALUE, 2, r->bad_factor);
  return r->bad_position == UINT64_MAX ? skeep_ok() : skeep_fail(SKEEP_ERR_INDEX, 1, r->bad_position);
}

/* Positions and factors may be others by now than those that were checked: each is read here once more, and checked. */
static void rope_task(void *arg, uint32_t task, void *scratch) {
  struct rope *r = arg;
  const size_t padded = (r->params.dims / 2 + 7) / 8 * 8;
  double *theta = scratch;
  const double fastest = rope_theta(r, theta);
  const int64_t end = least((task + 1) * r->per_task, r->tokens);
  if (!(fastest <= FASTEST)) return;
  for (int64_t first = task * r->per_task, count; first < end; first += count) {
    int32_t positions[POSITIONS];
    count = least(POSITIONS, end - first);
    for (int64_t i = 0; i < count; i++) {
      const int64_t position = position_of(r, first + i, fastest);
      if (position < 0) return;
      positions[i] = (int32_t)position;
    }
    r->body(&(struct skeep_rope_rows){
        .x = operand_start(r->x, 4) + first * operand_step(r->x, 0, 4),
        .positions = (const char *)positions,
        .y = operand_start(r->y, 4) + first * operand_step(r->y, 0, 4),
        .x_token = operand_step(r->x, 0, 4),
        .x_head = operand_step(r->x, 1, 4),
        .y_token = operand_step(r->y, 0, 4),
        .y_head = operand_step(r->y, 1, 4),
        .position_stride = sizeof positions[0],
        .tokens = (size_t)count,
        .heads = (size_t)r->x->layout.shape[1],
        .head_dim = (size_t)r->x->layout.shape[2],
        .dims = r->params.dims,
        .theta = theta,
        .magnitude = r->params.attn_factor,
        .form = r->params.form,
        .scratch = (float *)(theta + padded)});
  }
}

/* fastest: radians from one position to the next that no pair exceeds, without factors. */
static skeep_status rope_params_check(const skeep_rope_params *p, int64_t head_dim, double *fastest) {
#define REFUSE_UNLESS(condition, field) \
  if (!(condition)) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, offsetof(skeep_rope_params, field))
  REFUSE_UNLESS(p->form <= SKEEP_ROPE_NEOX, form);
  REFUSE_UNLESS(p->dims && p->dims % 2 == 0 && p->dims <= head_dim, dims);
  REFUSE_UNLESS(isfinite(p->base) && p->base > 0, base);
  REFUSE_UNLESS(isfinite(p->scale), scale);
  REFUSE_UNLESS(isfinite(p->ext_factor), ext_factor);
  REFUSE_UNLESS(isfinite(p->attn_factor), attn_factor);
  REFUSE_UNLESS(!p->reserved, reserved);
  if (p->ext_factor != 0) {
    REFUSE_UNLESS(p->base > 1, base);
    REFUSE_UNLESS(isfinite(p->beta_fast) && p->beta_fast > 0, beta_fast);
    REFUSE_UNLESS(isfinite(p->beta_slow) && p->beta_slow > 0, beta_slow);
    REFUSE_UNLESS(p->original_context, original_context);
  }
  /* The first pair turns fastest, or the last; the mix lies between 0 and ext_factor. */
  const double power = p->base >= 1 ? 1 : pow((double)p->base, 2.0 / p->dims - 1);
  const double scaled = power * fabs((double)p->scale);
  const double mixed = power * fabs((1 - (double)p->ext_factor) * (double)p->scale + (double)p->ext_factor);
  REFUSE_UNLESS(power <= FASTEST, base);
  REFUSE_UNLESS(scaled <= FASTEST, scale);
  REFUSE_UNLESS(mixed <= FASTEST, ext_factor);
#undef REFUSE_UNLESS
  *fastest = fmax(scaled, mixed);
  return skeep_ok();
}

static skeep_status rope(struct skeep_op *op, const skeep_rope_params *params) {
  const struct skeep_kernel *kernel;
  struct rope r = {.x = op->v[0], .positions = op->v[1], .factors = op->v[2], .y = op->v[3], .params = *params};
  SKEEP_TRY(operand_dense(r.x, 0, SKEEP_F32, 3));
  SKEEP_TRY(rope_params_check(params, r.x->layout.shape[2], &r.fastest));
  SKEEP_TRY(operand_dense(r.y, 3, SKEEP_F32, 3));
  SKEEP_TRY(operand_shape(r.y, 3, r.x));
  SKEEP_TRY(operand_dense(r.positions, 1, SKEEP_I32, 1));
  SKEEP_TRY(operand_extent(r.positions, 1, 0, r.x->layout.shape[0]));
  if (r.factors) {
    SKEEP_TRY(operand_dense(r.factors, 2, SKEEP_F32, 1));
    SKEEP_TRY(operand_extent(r.factors, 2, 0, params->dims / 2));
  }
  SKEEP_TRY(skeep_select_row(SKEEP_OP_ROPE, op->v, op->count, &kernel));
  r.body = (skeep_body_rope *)kernel->body;
  const uint64_t need = ((uint64_t)params->dims / 2 + 7) / 8 * 8 * sizeof(double) +
                        SKEEP_ROPE_SCRATCH((uint64_t)params->dims) * sizeof(float);
  if (need > skeep_pool_scratch(op->pool)) return skeep_fail(SKEEP_ERR_MEMORY, -1, need);
  r.tokens = r.x->layout.shape[0];
  r.bad_position = r.bad_factor = UINT64_MAX;
  SKEEP_TRY(guarded(rope_check, &r));
  SKEEP_TRY(rope_bad(&r));
  const int64_t size = r.x->layout.shape[1] * r.x->layout.shape[2], worth = 8192;
  r.per_task = most((r.tokens - 1) / (4 * (int64_t)skeep_pool_threads(op->pool)) + 1, (worth - 1) / size + 1);
  SKEEP_TRY(skeep_pool_run(op->pool, rope_task, &r, (uint32_t)((r.tokens - 1) / r.per_task + 1)));
  return rope_bad(&r);
}

skeep_status skeep_rope(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *positions,
                        const skeep_view *factors, skeep_rope_params params, const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {x, positions, factors, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_ROPE, pool, step, v, 4));
  return skeep_op_end(&op, rope(&op, &params));
}

/* ---- positions and sequences ---- */

/* The indices of some tokens, read once: the caller's may change meanwhile. */
#define INDICES 256
struct indices {
  int64_t first, tokens;
  int32_t position[INDICES], sequence[INDICES];
};

static int64_t sequence_of(const skeep_view *sequences, int64_t t) { return sequences ? operand_i32(sequences, t) : 0; }

/* Reads those of the next tokens, as many as there is room for. ERR_INDEX when one is out of range; operand: that of
 * the positions. */
static skeep_status indices_read(struct indices *n, const skeep_view *positions, const skeep_view *sequences,
                                 int64_t sequence_count, int32_t operand) {
  n->tokens = least(INDICES, positions->layout.shape[0] - n->first);
  for (int64_t i = 0; i < n->tokens; i++) {
    const int64_t position = operand_i32(positions, n->first + i), sequence = sequence_of(sequences, n->first + i);
    if (position < 0) return skeep_fail(SKEEP_ERR_INDEX, operand, (uint64_t)(n->first + i));
    if (sequence < 0 || sequence >= sequence_count)
      return skeep_fail(SKEEP_ERR_INDEX, operand + 1, (uint64_t)(n->first + i));
    n->position[i] = (int32_t)position;
    n->sequence[i] = (int32_t)sequence;
  }
  return skeep_ok();
}

/* ---- kv_store ---- */

struct kv_store {
  const skeep_view *in[2], *positions, *sequences, *cache[2]; /* keys, values */
  skeep_body_kv_store *body;
  int64_t tokens, heads, capacity, size;
  uint32_t per_task;
  skeep_status status;
  struct indices *now;
  uint64_t too_large[2]; /* flat position of the first key and value that the cache cannot hold, or UINT64_MAX */
};

/* Tokens from t on with the sequence of t and consecutive positions. */
static int64_t run_length(const struct kv_store *s, int64_t t) {
  const int64_t sequence = sequence_of(s->sequences, t), position = operand_i32(s->positions, t);
  int64_t n = 1;
  while (t + n < s->tokens && sequence_of(s->sequences, t + n) == sequence &&
         operand_i32(s->positions, t + n) == position + n)
    n++;
  return n;
}

/* Positions and sequences in range, and no slot twice: so that nothing is written when they are not. A run of
 * consecutive positions is an arc of the ring; two arcs meet when either begins within the other. */
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

/* Looks through a row of in[which] of which an element became infinite: an infinite or undefined one is stored as it
 * is, a finite one is an error. */
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

/* A unit is one head of keys or of values, of all tokens whose indices were read. */
static void kv_store_task(void *arg, uint32_t task, void *scratch) {
  struct kv_store *s = arg;
  (void)scratch;
  for (uint32_t unit = task * s->per_task; unit < (task + 1) * s->per_task && unit < 2 * s->heads; unit++) {
    const skeep_view *in = s->in[unit & 1], *cache = s->cache[unit & 1];
    const int64_t h = unit >> 1;
    for (int64_t i = 0; i < s->now->tokens; i++) {
      const int64_t t = s->now->first + i;
      if (s->body(operand_start(in, 4) + t * operand_step(in, 0, 4) + h * operand_step(in, 1, 4),
                  (size_t)in->layout.shape[2],
                  operand_start(cache, s->size) + s->now->sequence[i] * operand_step(cache, 0, s->size) +
                      h * operand_step(cache, 1, s->size) +
                      s->now->position[i] % s->capacity * operand_step(cache, 2, s->size)))
        kv_store_refuse(s, unit & 1, t, h);
    }
  }
}

/* Both caches: one encoding with a kernel of this operation, one shape up to head_dim. key: operand of the keys. */
static skeep_status caches_check(struct skeep_op *op, uint32_t id, int32_t key, const struct skeep_kernel **kernel) {
  const skeep_view *k = op->v[key], *v = op->v[key + 1];
  SKEEP_TRY(skeep_select_row(id, op->v, op->count, kernel));
  SKEEP_TRY(operand_dense(k, key, k->encoding, 4));
  SKEEP_TRY(operand_dense(v, key + 1, k->encoding, 4));
  for (uint32_t a = 0; a < 3; a++) SKEEP_TRY(operand_extent(v, key + 1, a, k->layout.shape[a]));
  return skeep_ok();
}

/* positions [tokens] and, when present, sequences [tokens], at these operands. */
static skeep_status indices_check(const skeep_view *positions, const skeep_view *sequences, int32_t operand,
                                  int64_t tokens) {
  SKEEP_TRY(operand_dense(positions, operand, SKEEP_I32, 1));
  SKEEP_TRY(operand_extent(positions, operand, 0, tokens));
  if (!sequences) return skeep_ok();
  SKEEP_TRY(operand_dense(sequences, operand + 1, SKEEP_I32, 1));
  return operand_extent(sequences, operand + 1, 0, tokens);
}

static skeep_status kv_store(struct skeep_op *op) {
  const struct skeep_kernel *kernel;
  struct indices now; /* apart, since an initializer would clear it */
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
  const int64_t worth = 16384, unit = least(s.tokens, INDICES) * s.in[0]->layout.shape[2];
  s.per_task = (uint32_t)((worth - 1) / unit + 1);
  for (now.first = 0; now.first < s.tokens; now.first += now.tokens) {
    SKEEP_TRY(guarded(kv_store_read, &s));
    SKEEP_TRY(s.status);
    SKEEP_TRY(skeep_pool_run(op->pool, kv_store_task, &s, (uint32_t)((2 * s.heads - 1) / s.per_task + 1)));
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

/* ---- attend --------------------------------------------------------------------------------------
 * A row sums its positions in chunks and adds the chunks in ascending order. The chunks of a row follow from how many
 * positions it sees, not from the step it is in or the threads there are: so a token alone, in a prompt, and
 * with its chunks spread over threads gives the same bits. */

#define CHUNK 512     /* positions, the smallest chunk; a multiple of SKEEP_ATTEND_BLOCK */
#define CHUNKS 8      /* a row sees at most one more (chunks begin at absolute positions) */
#define SPREAD (SKEEP_POOL_SHARED / sizeof(float)) /* partial results that there is room for */

struct attend {
  const skeep_view *q, *k, *v, *positions, *sequences, *y;
  skeep_attend_params params;
  skeep_body_attend *body;
  int64_t tokens, kv_heads, capacity, size;
  int64_t group, head_tile, head_tiles, token_tile; /* query heads per KV head, and per tile */
  int64_t tiles, per_task, v_padded;
  /* Chunks of one token spread over tasks: */
  int64_t chunk, chunks, first_tile;
  float *partial;
  int64_t widest; /* positions that one row sees, at most */
  skeep_status status;
  struct indices *now; /* tiles count tokens from its first */
};

/* Rows of one tile that share their sequence and chunk length. */
struct rows {
  int64_t token, tokens, head, heads, kv_head, sequence;
  int64_t lo[SKEEP_ATTEND_ROWS], hi[SKEEP_ATTEND_ROWS]; /* of each token */
};

/* What was summed of each row: the largest score, the sum of weights, the weighted values. */
struct partial {
  float *most, *sum, *acc;
};

static void sees(const struct attend *a, int64_t t, int64_t *lo, int64_t *hi) {
  *hi = a->now->position[t] + (int64_t)1;
  *lo = a->params.window ? most(0, *hi - a->params.window) : 0;
}

static int64_t chunk_of(int64_t positions) {
  int64_t chunk = CHUNK;
  while (positions > CHUNKS * chunk) chunk *= 2;
  return chunk;
}

static struct partial partial_at(float *p, int64_t rows) { return (struct partial){p, p + rows, p + 2 * rows}; }
static int64_t partial_size(const struct attend *a, int64_t rows) { return rows * (2 + a->v_padded); }

static void chunk_run(const struct attend *a, const struct rows *r, int64_t begin, int64_t end, struct partial out,
                      float *scratch) {
  const int64_t size = a->size;
  const char *k = operand_start(a->k, size) + r->sequence * operand_step(a->k, 0, size) +
                  r->kv_head * operand_step(a->k, 1, size);
  const char *v = operand_start(a->v, size) + r->sequence * operand_step(a->v, 0, size) +
                  r->kv_head * operand_step(a->v, 1, size);
  a->body(&(struct skeep_attend_tile){
      .q = operand_start(a->q, 4) + (a->now->first + r->token) * operand_step(a->q, 0, 4) + r->head * operand_step(a->q, 1, 4),
      .k = k,
      .v = v,
      .q_token = operand_step(a->q, 0, 4),
      .q_head = operand_step(a->q, 1, 4),
      .k_slot = operand_step(a->k, 2, size),
      .v_slot = operand_step(a->v, 2, size),
      .capacity = a->capacity,
      .begin = begin,
      .end = end,
      .lo = r->lo,
      .hi = r->hi,
      .tokens = (size_t)r->tokens,
      .heads = (size_t)r->heads,
      .k_dim = (size_t)a->k->layout.shape[3],
      .v_dim = (size_t)a->v->layout.shape[3],
      .scale = a->params.scale,
      .softcap = a->params.softcap,
      .most = out.most,
      .sum = out.sum,
      .acc = out.acc,
      .scratch = scratch});
}

/* Adds the chunk [begin, end) to the total of each row that sees some of it; started: bit per token. A maximum of
 * -inf counts as 0, as in the body. */
static void chunk_add(const struct attend *a, const struct rows *r, int64_t begin, int64_t end, struct partial total,
                      struct partial chunk, uint32_t *started) {
  for (int64_t t = 0; t < r->tokens; t++) {
    if (r->lo[t] >= end || r->hi[t] <= begin) continue;
    const int first = !(*started >> t & 1);
    *started |= 1u << t;
    for (int64_t i = t * r->heads; i < (t + 1) * r->heads; i++) {
      float *acc = total.acc + i * a->v_padded;
      const float *more = chunk.acc + i * a->v_padded;
      if (first) {
        total.most[i] = chunk.most[i];
        total.sum[i] = chunk.sum[i];
        memcpy(acc, more, (size_t)a->v_padded * sizeof(float));
        continue;
      }
      const float largest = fmaxf(total.most[i], chunk.most[i]), base = largest == -INFINITY ? 0 : largest;
      const float keep = expf(total.most[i] - base), take = expf(chunk.most[i] - base);
      total.most[i] = largest;
      total.sum[i] = total.sum[i] * keep + chunk.sum[i] * take;
      for (int64_t d = 0; d < a->v_padded; d++) acc[d] = acc[d] * keep + more[d] * take;
    }
  }
}

static void rows_finish(const struct attend *a, const struct rows *r, struct partial total) {
  const int64_t n = a->v->layout.shape[3];
  for (int64_t i = 0; i < r->tokens * r->heads; i++) {
    char *y = operand_start(a->y, 4) + (a->now->first + r->token + i / r->heads) * operand_step(a->y, 0, 4) +
              (r->head + i % r->heads) * operand_step(a->y, 1, 4);
    float *acc = total.acc + i * a->v_padded;
    for (int64_t d = 0; d < n; d++) acc[d] /= total.sum[i];
    memcpy(y, acc, (size_t)n * sizeof(float));
  }
}

/* Which rows tile i has; tokens after the first `r->tokens` ones of *token .. *end are left for the next call. */
static void tile_rows(const struct attend *a, int64_t tile, int64_t *token, int64_t *end, struct rows *r) {
  const int64_t part = tile % a->head_tiles;
  if (*token < 0) {
    *token = tile / a->head_tiles / a->kv_heads * a->token_tile;
    *end = least(*token + a->token_tile, a->now->tokens);
  }
  r->kv_head = tile / a->head_tiles % a->kv_heads;
  r->head = r->kv_head * a->group + part * a->head_tile;
  r->heads = least(a->head_tile, a->group - part * a->head_tile);
  r->token = *token;
  r->sequence = a->now->sequence[r->token];
  r->tokens = 0;
  do {
    sees(a, *token, &r->lo[r->tokens], &r->hi[r->tokens]);
    if (r->tokens && (a->now->sequence[*token] != r->sequence ||
                      chunk_of(r->hi[r->tokens] - r->lo[r->tokens]) != chunk_of(r->hi[0] - r->lo[0])))
      break;
    r->tokens++;
  } while (++*token < *end);
}

static void tile_run(const struct attend *a, int64_t tile, float *scratch) {
  struct rows r;
  for (int64_t token = -1, end = 0; token < end;) {
    tile_rows(a, tile, &token, &end, &r);
    const int64_t rows = r.tokens * r.heads, chunk = chunk_of(r.hi[0] - r.lo[0]);
    const struct partial total = partial_at(scratch, rows), part = partial_at(scratch + partial_size(a, rows), rows);
    float *rest = scratch + (2 * partial_size(a, rows) + 15) / 16 * 16;
    int64_t lo = r.lo[0], hi = r.hi[0];
    for (int64_t t = 1; t < r.tokens; t++) lo = least(lo, r.lo[t]), hi = most(hi, r.hi[t]);
    uint32_t started = 0;
    for (int64_t c = lo / chunk * chunk; c < hi; c += chunk) {
      chunk_run(a, &r, c, c + chunk, part, rest);
      chunk_add(a, &r, c, c + chunk, total, part, &started);
    }
    rows_finish(a, &r, total);
  }
}

static void attend_task(void *arg, uint32_t task, void *scratch) {
  const struct attend *a = arg;
  for (int64_t i = task * a->per_task; i < least((task + 1) * a->per_task, a->tiles); i++) tile_run(a, i, scratch);
}

/* One token, one tile and chunk per task. */
static void spread_task(void *arg, uint32_t task, void *scratch) {
  const struct attend *a = arg;
  struct rows r;
  int64_t token = -1, end = 0;
  tile_rows(a, a->first_tile + task / a->chunks, &token, &end, &r);
  const int64_t begin = (r.lo[0] / a->chunk + task % a->chunks) * a->chunk;
  float *out = a->partial + task * partial_size(a, a->head_tile);
  chunk_run(a, &r, begin, begin + a->chunk, partial_at(out, r.heads), scratch);
}

/* One token whose tiles are too few for the threads: as many tiles at a time as the partial results have room for. */
static skeep_status spread_run(struct attend *a, skeep_pool *pool, int64_t at_a_time) {
  const struct skeep_turn turn = skeep_turn_take(pool);
  skeep_status st = skeep_ok();
  a->partial = turn.shared;
  for (a->first_tile = 0; st.code == SKEEP_OK && a->first_tile < a->tiles; a->first_tile += at_a_time) {
    const int64_t tiles = least(at_a_time, a->tiles - a->first_tile), size = partial_size(a, a->head_tile);
    st = skeep_turn_run(&turn, spread_task, a, (uint32_t)(tiles * a->chunks));
    for (int64_t i = 0; st.code == SKEEP_OK && i < tiles; i++) {
      struct rows r;
      int64_t token = -1, end = 0;
      uint32_t started = 1; /* the first chunk is the total */
      tile_rows(a, a->first_tile + i, &token, &end, &r);
      float *p = a->partial + i * a->chunks * size;
      for (int64_t c = 1; c < a->chunks; c++)
        chunk_add(a, &r, 0, INT64_MAX, partial_at(p, r.heads), partial_at(p + c * size, r.heads), &started);
      rows_finish(a, &r, partial_at(p, r.heads));
    }
  }
  skeep_turn_give(&turn);
  return st;
}

/* The indices of the next tokens, none of which sees more than the ring holds. */
static void attend_read(void *arg) {
  struct attend *a = arg;
  int64_t lo, hi;
  a->status = indices_read(a->now, a->positions, a->sequences, a->k->layout.shape[0], 3);
  a->widest = 0;
  for (int64_t t = 0; t < a->now->tokens && a->status.code == SKEEP_OK; t++) {
    sees(a, t, &lo, &hi);
    a->widest = most(a->widest, hi - lo);
    if (hi - lo > a->capacity) a->status = skeep_fail(SKEEP_ERR_SHAPE, 1, 2);
  }
}

/* Indices in range, and every position that a row sees still in its slot: so that nothing is written when not. */
static void attend_check(void *arg) {
  struct attend *a = arg;
  int64_t last = 0, lo, hi;
  for (a->now->first = 0; a->now->first < a->tokens; a->now->first += a->now->tokens) {
    a->status = indices_read(a->now, a->positions, a->sequences, a->k->layout.shape[0], 3);
    if (a->status.code != SKEEP_OK) return;
    for (int64_t t = 0; t < a->now->tokens; t++) last = most(last, a->now->position[t]);
  }
  for (a->now->first = 0; a->now->first < a->tokens; a->now->first += a->now->tokens) {
    a->status = indices_read(a->now, a->positions, a->sequences, a->k->layout.shape[0], 3);
    for (int64_t t = 0; t < a->now->tokens && a->status.code == SKEEP_OK; t++) {
      sees(a, t, &lo, &hi);
      int64_t own = last;
      if (lo > last - a->capacity) continue;
      if (a->sequences) { /* the last position of its own sequence decides */
        own = a->now->position[t];
        for (int64_t u = 0; u < a->tokens; u++)
          if (operand_i32(a->sequences, u) == a->now->sequence[t]) own = most(own, operand_i32(a->positions, u));
      }
      if (lo <= own - a->capacity) a->status = skeep_fail(SKEEP_ERR_SHAPE, 1, 2);
    }
    if (a->status.code != SKEEP_OK) return;
  }
}

/* Sizes of tiles: as many rows as a body takes and the scratch holds. */
static skeep_status attend_tiles(struct attend *a, size_t scratch) {
  const size_t k_dim = (size_t)a->k->layout.shape[3], v_dim = (size_t)a->v->layout.shape[3];
  uint64_t need = 0;
  int64_t rows = SKEEP_ATTEND_ROWS;
  for (; rows; rows /= 2) {
    need = ((uint64_t)skeep_attend_scratch((size_t)rows, k_dim, v_dim) + 2 * (uint64_t)partial_size(a, rows) + 16) *
           sizeof(float);
    if (need <= scratch) break;
  }
  if (!rows) return skeep_fail(SKEEP_ERR_MEMORY, -1, need);
  a->head_tile = least(a->group, rows);
  a->head_tiles = (a->group - 1) / a->head_tile + 1;
  a->token_tile = most(1, rows / a->head_tile);
  return skeep_ok();
}

/* All tokens whose indices were read. */
static skeep_status attend_run(struct attend *a, skeep_pool *pool) {
  const int64_t token_tiles = (a->now->tokens - 1) / a->token_tile + 1;
  a->tiles = token_tiles * a->kv_heads * a->head_tiles;
  if (a->tokens == 1 && a->tiles < skeep_pool_threads(pool)) {
    int64_t lo, hi;
    sees(a, 0, &lo, &hi);
    a->chunk = chunk_of(hi - lo);
    a->chunks = (hi - 1) / a->chunk - lo / a->chunk + 1;
    const int64_t at_a_time = (int64_t)SPREAD / (a->chunks * partial_size(a, a->head_tile));
    if (a->chunks > 1 && at_a_time) return spread_run(a, pool, at_a_time);
  }
  const int64_t worth = 32768; /* multiplications */
  const int64_t row = a->widest * (a->k->layout.shape[3] + a->v->layout.shape[3]);
  const int64_t tile = row * a->head_tile * least(a->token_tile, a->now->tokens);
  a->per_task = (worth - 1) / tile + 1;
  return skeep_pool_run(pool, attend_task, a, (uint32_t)((a->tiles - 1) / a->per_task + 1));
}

static skeep_status attend(struct skeep_op *op, const skeep_attend_params *params) {
  const struct skeep_kernel *kernel;
  struct indices now;
  struct attend a = {.q = op->v[0], .k = op->v[1], .v = op->v[2], .positions = op->v[3], .sequences = op->v[4],
                     .y = op->v[5], .params = *params, .status = skeep_ok(), .now = &now};
  if (!isfinite(params->scale)) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, offsetof(skeep_attend_params, scale));
  if (!isfinite(params->softcap) || params->softcap < 0)
    return skeep_fail(SKEEP_ERR_ARGUMENT, -1, offsetof(skeep_attend_params, softcap));
  if (params->reserved) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, offsetof(skeep_attend_params, reserved));
  SKEEP_TRY(caches_check(op, SKEEP_OP_ATTEND, 1, &kernel));
  SKEEP_TRY(operand_dense(a.q, 0, SKEEP_F32, 3));
  SKEEP_TRY(operand_dense(a.y, 5, SKEEP_F32, 3));
  a.tokens = a.q->layout.shape[0];
  a.kv_heads = a.k->layout.shape[1];
  a.capacity = a.k->layout.shape[2];
  a.size = skeep_encoding_find(a.k->encoding)->block_bytes;
  a.v_padded = (a.v->layout.shape[3] + 7) / 8 * 8;
  a.body = (skeep_body_attend *)kernel->body;
  if (a.q->layout.shape[1] % a.kv_heads) return skeep_fail(SKEEP_ERR_SHAPE, 0, 1);
  a.group = a.q->layout.shape[1] / a.kv_heads;
  SKEEP_TRY(operand_extent(a.q, 0, 2, a.k->layout.shape[3]));
  for (uint32_t axis = 0; axis < 2; axis++) SKEEP_TRY(operand_extent(a.y, 5, axis, a.q->layout.shape[axis]));
  SKEEP_TRY(operand_extent(a.y, 5, 2, a.v->layout.shape[3]));
  SKEEP_TRY(indices_check(a.positions, a.sequences, 3, a.tokens));
  SKEEP_TRY(attend_tiles(&a, skeep_pool_scratch(op->pool)));
  SKEEP_TRY(guarded(attend_check, &a));
  SKEEP_TRY(a.status);

  for (now.first = 0; now.first < a.tokens; now.first += now.tokens) {
    SKEEP_TRY(guarded(attend_read, &a));
    SKEEP_TRY(a.status);
    SKEEP_TRY(attend_run(&a, op->pool));
  }
  return skeep_ok();
}

skeep_status skeep_attend(skeep_pool *pool, skeep_step *step, const skeep_view *q, const skeep_view *k_cache,
                          const skeep_view *v_cache, const skeep_view *positions, const skeep_view *sequences,
                          skeep_attend_params params, const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {q, k_cache, v_cache, positions, sequences, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_ATTEND, pool, step, v, 6));
  return skeep_op_end(&op, attend(&op, &params));
}
