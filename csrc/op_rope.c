/* rope: rotary position embedding. */
#include "op_positions.h"

#include <math.h>
#include <stddef.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define FASTEST 2048.0 /* max radians from one position to the next */
#define ANGLE 0x1p31   /* angles are below it: then their reduction to a quarter turn is accurate to 10^-6 */
#define POSITIONS 64   /* that a task computes at a time */

struct rope {
  const skeep_view *x, *positions, *factors, *y;
  skeep_rope_params params;
  skeep_body_rope *body;
  int64_t tokens;
  struct tasks tasks; /* of tokens */
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

/* Computes theta[0 .. dims/2), padded with 0 to a multiple of eight, unless theta is NULL. Returns the largest
 * magnitude, or infinity after recording the factor that caused it. Powers of the base are computed by multiplication:
 * their relative error stays below dims * 2^-53, so that an angle of 10^6 is accurate to 10^-7. */
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

/* Position t, or -1 when it is negative or makes an angle too large. */
static int64_t position_of(struct rope *r, int64_t t, double fastest) {
  const int64_t position = operand_i32(r->positions, t);
  if (position >= 0 && (double)position * fastest < ANGLE) return position;
  operand_note(&r->bad_position, (uint64_t)t);
  return -1;
}

/* Checks positions and factors before anything is written. */
static void rope_check(void *arg) {
  struct rope *r = arg;
  const double fastest = r->factors ? rope_theta(r, NULL) : r->fastest;
  for (int64_t t = 0; t < r->tokens && r->bad_factor == UINT64_MAX; t++) (void)position_of(r, t, fastest);
}

static skeep_status rope_bad(const struct rope *r) {
  if (r->bad_factor != UINT64_MAX) return skeep_fail(SKEEP_ERR_VALUE, 2, r->bad_factor);
  return r->bad_position == UINT64_MAX ? skeep_ok() : skeep_fail(SKEEP_ERR_INDEX, 1, r->bad_position);
}

/* Positions and factors may have changed since they were checked, so each is checked again with the value used here. */
static void rope_task(void *arg, uint32_t task, void *scratch) {
  struct rope *r = arg;
  const size_t padded = (r->params.dims / 2 + 7) / 8 * 8;
  double *theta = scratch;
  const double fastest = rope_theta(r, theta);
  const int64_t end = (int64_t)tasks_end(&r->tasks, task);
  if (!(fastest <= FASTEST)) return;
  for (int64_t first = (int64_t)tasks_begin(&r->tasks, task), count; first < end; first += count) {
    int32_t positions[POSITIONS];
    count = min_i64(POSITIONS, end - first);
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
  /* The first or the last pair has the largest angle; the mix is between 0 and ext_factor. */
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
  const uint64_t size = (uint64_t)(r.x->layout.shape[1] * r.x->layout.shape[2]);
  r.tasks = tasks_of(op->pool, (uint64_t)r.tokens, size, 8192, TASKS_EVEN);
  SKEEP_TRY(skeep_pool_run(op->pool, rope_task, &r, r.tasks.count));
  return rope_bad(&r);
}

skeep_status skeep_rope(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *positions,
                        const skeep_view *factors, skeep_rope_params params, const skeep_view *y) {
  struct skeep_op op;
  const skeep_view *const v[] = {x, positions, factors, y};
  SKEEP_TRY(skeep_op_begin(&op, SKEEP_OP_ROPE, pool, step, v, 4));
  return skeep_op_end(&op, rope(&op, &params));
}
