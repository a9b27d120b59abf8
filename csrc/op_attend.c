/* attend: attention of queries over the caches.
 *
 * The positions that a row sees are cut into chunks. Each chunk is summed by itself, and the chunks are added in
 * ascending order. The size of chunks depends only on how many positions the row sees, not on the other tokens of the
 * call or the number of threads. So a token gives the same bits alone, in a prompt, and with its chunks spread over
 * threads. */
#include "op_positions.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define CHUNK 512     /* positions in the smallest chunk; a multiple of SKEEP_ATTEND_BLOCK */
#define CHUNKS 8      /* chunks of a row, and one more since chunks begin at absolute positions */
#define SPREAD (SKEEP_POOL_SHARED / sizeof(float)) /* floats of partial results that fit */

/* Sums of finite values over fewer than 2^31 positions cannot overflow when weights are multiplied by SHRUNK. A tile in
 * which a sum overflowed is computed again in that way, to replace the elements that overflowed. */
#define SHRUNK 0x1p-32f

struct attend {
  const skeep_view *q, *k, *v, *positions, *sequences, *y;
  skeep_attend_params params;
  skeep_body_attend *body;
  int64_t tokens, kv_heads, capacity, size;
  int64_t group, head_tile, head_tiles, token_tile; /* query heads per KV head, and per tile */
  int64_t tiles, v_padded;
  struct tasks tasks; /* of tiles */
  /* When the chunks of one token are spread over tasks: */
  int64_t chunk, chunks, first_tile;
  float *partial, shrink;
  int64_t widest; /* largest number of positions that a row sees */
  skeep_status status;
  struct indices *now; /* tiles count tokens from its first */
};

/* Rows of one tile that share their sequence and chunk length. */
struct rows {
  int64_t token, tokens, head, heads, kv_head, sequence;
  int64_t lo[SKEEP_ATTEND_ROWS], hi[SKEEP_ATTEND_ROWS]; /* of each token */
};

/* Sums of each row: the largest score, the sum of weights, the sum of weighted values. */
struct partial {
  float *max_score, *sum, *acc;
};

static void sees(const struct attend *a, int64_t t, int64_t *lo, int64_t *hi) {
  *hi = a->now->position[t] + (int64_t)1;
  *lo = a->params.window ? max_i64(0, *hi - a->params.window) : 0;
}

static int64_t chunk_of(int64_t positions) {
  int64_t chunk = CHUNK;
  while (positions > CHUNKS * chunk) chunk *= 2;
  return chunk;
}

static struct partial partial_at(float *p, int64_t rows) { return (struct partial){p, p + rows, p + 2 * rows}; }
static int64_t partial_size(const struct attend *a, int64_t rows) { return rows * (2 + a->v_padded); }

static void chunk_run(const struct attend *a, const struct rows *r, int64_t begin, int64_t end, float shrink,
                      struct partial out, float *scratch) {
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
      .shrink = shrink,
      .max_score = out.max_score,
      .sum = out.sum,
      .acc = out.acc,
      .scratch = scratch});
}

/* Adds the chunk [begin, end) to the total of each row that sees part of it. started has a bit for each token whose
 * total has begun. A largest score of -inf counts as 0, as in the kernel. */
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
        total.max_score[i] = chunk.max_score[i];
        total.sum[i] = chunk.sum[i];
        memcpy(acc, more, (size_t)a->v_padded * sizeof(float));
        continue;
      }
      const float largest = fmaxf(total.max_score[i], chunk.max_score[i]), base = largest == -INFINITY ? 0 : largest;
      const float keep = expf(total.max_score[i] - base), take = expf(chunk.max_score[i] - base);
      total.max_score[i] = largest;
      total.sum[i] = total.sum[i] * keep + chunk.sum[i] * take;
      for (int64_t d = 0; d < a->v_padded; d++) acc[d] = acc[d] * keep + more[d] * take;
    }
  }
}

/* acc[0 .. n) /= sum. Returns whether an element of acc is not finite although the weights are. */
static int row_divide(float *acc, float sum, int64_t n) {
  uint32_t infinite = 0;
  for (int64_t d = 0; d < n; d++) {
    uint32_t bits;
    memcpy(&bits, acc + d, sizeof bits);
    infinite |= (bits & 0x7f800000) == 0x7f800000;
    acc[d] /= sum;
  }
  return infinite && isfinite(sum);
}

/* Multiplies a mean by 1 / SHRUNK again. The mean of finite values is within their range; rounding may lead beyond F32,
 * so it is clamped. */
static float grown(float mean) {
  return isfinite(mean) ? fminf(fmaxf(mean * (1 / SHRUNK), -FLT_MAX), FLT_MAX) : mean;
}

/* Writes y. Returns whether the tile must be computed again with shrunk weights, to replace elements that are not
 * finite. */
static int rows_finish(const struct attend *a, const struct rows *r, float shrink, struct partial total) {
  const int64_t n = a->v->layout.shape[3];
  int again = 0;
  for (int64_t i = 0; i < r->tokens * r->heads; i++) {
    char *y = operand_start(a->y, 4) + (a->now->first + r->token + i / r->heads) * operand_step(a->y, 0, 4) +
              (r->head + i % r->heads) * operand_step(a->y, 1, 4);
    float *acc = total.acc + i * a->v_padded;
    again |= row_divide(acc, total.sum[i], n);
    for (int64_t d = 0; shrink != 1 && d < n; d++) {
      float before;
      memcpy(&before, y + d * 4, sizeof before);
      acc[d] = isfinite(before) || !isfinite(total.sum[i]) ? before : grown(acc[d]);
    }
    memcpy(y, acc, (size_t)n * sizeof(float));
  }
  return again && shrink == 1;
}

/* The next rows of tile i: r->tokens of the tokens from *token to *end. The others are left for the next call. */
static void tile_rows(const struct attend *a, int64_t tile, int64_t *token, int64_t *end, struct rows *r) {
  const int64_t part = tile % a->head_tiles;
  if (*token < 0) {
    *token = tile / a->head_tiles / a->kv_heads * a->token_tile;
    *end = min_i64(*token + a->token_tile, a->now->tokens);
  }
  r->kv_head = tile / a->head_tiles % a->kv_heads;
  r->head = r->kv_head * a->group + part * a->head_tile;
  r->heads = min_i64(a->head_tile, a->group - part * a->head_tile);
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
    for (int64_t t = 1; t < r.tokens; t++) lo = min_i64(lo, r.lo[t]), hi = max_i64(hi, r.hi[t]);
    int again = 1;
    for (float shrink = 1; again; shrink = SHRUNK) {
      uint32_t started = 0;
      for (int64_t c = lo / chunk * chunk; c < hi; c += chunk) {
        chunk_run(a, &r, c, c + chunk, shrink, part, rest);
        chunk_add(a, &r, c, c + chunk, total, part, &started);
      }
      again = rows_finish(a, &r, shrink, total);
    }
  }
}

static void attend_task(void *arg, uint32_t task, void *scratch) {
  const struct attend *a = arg;
  for (uint64_t i = tasks_begin(&a->tasks, task); i < tasks_end(&a->tasks, task); i++) tile_run(a, (int64_t)i, scratch);
}

/* Task: one chunk of one tile of one token. */
static void spread_task(void *arg, uint32_t task, void *scratch) {
  const struct attend *a = arg;
  struct rows r;
  int64_t token = -1, end = 0;
  tile_rows(a, a->first_tile + task / a->chunks, &token, &end, &r);
  const int64_t begin = (r.lo[0] / a->chunk + task % a->chunks) * a->chunk;
  float *out = a->partial + task * partial_size(a, a->head_tile);
  chunk_run(a, &r, begin, begin + a->chunk, a->shrink, partial_at(out, r.heads), scratch);
}

/* Adds the chunks of these tiles of one token and writes y. Returns whether sums overflowed. */
static int spread_finish(const struct attend *a, int64_t tiles) {
  const int64_t size = partial_size(a, a->head_tile);
  int again = 0;
  for (int64_t i = 0; i < tiles; i++) {
    struct rows r;
    int64_t token = -1, end = 0;
    uint32_t started = 1; /* the first chunk is the total */
    tile_rows(a, a->first_tile + i, &token, &end, &r);
    float *p = a->partial + i * a->chunks * size;
    for (int64_t c = 1; c < a->chunks; c++)
      chunk_add(a, &r, 0, INT64_MAX, partial_at(p, r.heads), partial_at(p + c * size, r.heads), &started);
    again |= rows_finish(a, &r, a->shrink, partial_at(p, r.heads));
  }
  return again;
}

/* One token with fewer tiles than threads: spreads its chunks, for as many tiles at a time as partial results fit. */
static skeep_status spread_run(struct attend *a, skeep_pool *pool, int64_t at_a_time) {
  const struct skeep_turn turn = skeep_turn_take(pool);
  skeep_status st = skeep_ok();
  a->partial = turn.shared;
  for (a->first_tile = 0; st.code == SKEEP_OK && a->first_tile < a->tiles; a->first_tile += at_a_time) {
    const int64_t tiles = min_i64(at_a_time, a->tiles - a->first_tile);
    int again = 1;
    for (a->shrink = 1; again && st.code == SKEEP_OK; a->shrink = SHRUNK) {
      st = skeep_turn_run(&turn, spread_task, a, (uint32_t)(tiles * a->chunks));
      again = st.code == SKEEP_OK && spread_finish(a, tiles);
    }
  }
  skeep_turn_give(&turn);
  return st;
}

/* Reads the indices of the next tokens and checks that none sees more positions than the cache holds. */
static void attend_read(void *arg) {
  struct attend *a = arg;
  int64_t lo, hi;
  a->status = indices_read(a->now, a->positions, a->sequences, a->k->layout.shape[0], 3);
  a->widest = 0;
  for (int64_t t = 0; t < a->now->tokens && a->status.code == SKEEP_OK; t++) {
    sees(a, t, &lo, &hi);
    a->widest = max_i64(a->widest, hi - lo);
    if (hi - lo > a->capacity) a->status = skeep_fail(SKEEP_ERR_SHAPE, 1, 2);
  }
}

/* Checks, before anything is written, that indices are in range and that no position a row sees has been
 * overwritten. */
static void attend_check(void *arg) {
  struct attend *a = arg;
  int64_t last = 0, lo, hi;
  for (a->now->first = 0; a->now->first < a->tokens; a->now->first += a->now->tokens) {
    a->status = indices_read(a->now, a->positions, a->sequences, a->k->layout.shape[0], 3);
    if (a->status.code != SKEEP_OK) return;
    for (int64_t t = 0; t < a->now->tokens; t++) last = max_i64(last, a->now->position[t]);
  }
  for (a->now->first = 0; a->now->first < a->tokens; a->now->first += a->now->tokens) {
    a->status = indices_read(a->now, a->positions, a->sequences, a->k->layout.shape[0], 3);
    for (int64_t t = 0; t < a->now->tokens && a->status.code == SKEEP_OK; t++) {
      sees(a, t, &lo, &hi);
      int64_t own = last;
      if (lo > last - a->capacity) continue;
      if (a->sequences) { /* what matters is the last position of the same sequence */
        own = a->now->position[t];
        for (int64_t u = 0; u < a->tokens; u++)
          if (operand_i32(a->sequences, u) == a->now->sequence[t]) own = max_i64(own, operand_i32(a->positions, u));
      }
      if (lo <= own - a->capacity) a->status = skeep_fail(SKEEP_ERR_SHAPE, 1, 2);
    }
    if (a->status.code != SKEEP_OK) return;
  }
}

/* Chooses the size of tiles: as many rows as a kernel takes and fit into scratch. */
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
  a->head_tile = min_i64(a->group, rows);
  a->head_tiles = (a->group - 1) / a->head_tile + 1;
  a->token_tile = max_i64(1, rows / a->head_tile);
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
  const uint64_t worth = 32768; /* multiplications */
  const int64_t row = a->widest * (a->k->layout.shape[3] + a->v->layout.shape[3]);
  const int64_t tile = row * a->head_tile * min_i64(a->token_tile, a->now->tokens);
  a->tasks = tasks_of(pool, (uint64_t)a->tiles, (uint64_t)tile, worth, TASKS_UNEVEN); /* later tokens see more */
  return skeep_pool_run(pool, attend_task, a, a->tasks.count);
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
