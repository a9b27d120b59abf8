/* Included first by every translation unit of the core: platform checks, the types of kernel bodies,
 * the kernel table, and what the units share. Nothing here is public. */
#ifndef SKEEP_INTERNAL_H
#define SKEEP_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "skeep.h"

#include <errno.h>
#include <string.h>

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "skeep supports linux on amd64 and arm64"
#endif

#define SKEEP_ANY 0xffffu
#define SKEEP_MAX_OPERANDS 16

#define SKEEP_ENCODING_IDS 512 /* all ids of encodings.def are below */

/* ---- kernel bodies: raw pointers, preconditions instead of checks ------------------------------
 * Pointers may have any alignment; extents are > 0; inputs are live, in bounds and do not overlap
 * outputs (unless the op is "in place"). Bodies allocate nothing and touch exactly the bytes named. */

/* out[0 .. count*block_elements) = the decoded blocks. */
typedef void skeep_body_decode(const void *blocks, size_t count, float *out);

/* blocks[0 .. count) = the encoding of in[count*block_elements). */
typedef void skeep_body_encode(const float *in, size_t count, void *blocks);

/* One A8 row: in[n] -> ceil(n / 128) blocks. */
typedef void skeep_body_quantize_rows(const float *in, size_t n, void *blocks);

/* A tile of a product: y[t*y_stride + o] for t in [0, tokens), o in [0, rows).
 * x: tokens rows, x_stride bytes apart, of F32 (exact) or A8 (integer) over n elements.
 * w: rows rows, w_stride bytes apart, as stored (ROW_MAJOR, gap-free along n).
 * scratch: the calling thread's own, 64-byte aligned, SKEEP_MATMUL_SCRATCH bytes. */
struct skeep_matmul_tile {
  const char *x;
  int64_t x_stride;
  const char *w;
  int64_t w_stride;
  float *y;
  int64_t y_stride; /* in elements */
  size_t tokens, rows, n;
  void *scratch;
};
typedef void skeep_body_matmul_t(const struct skeep_matmul_tile *tile);

/* Dense rows: bodies over rows of n F32 elements that lie *_stride bytes apart. */
struct skeep_rows {
  const char *a, *b; /* b: the second input of add, mul and glu; one row for all has stride 0 */
  char *y;           /* may be a or b */
  int64_t a_stride, b_stride, y_stride;
  size_t rows, n;
  float parameter; /* softmax: scale; softcap: cap */
  uint32_t form;   /* glu: SKEEP_GLU_* */
};
typedef void skeep_body_rowwise(const struct skeep_rows *o);

/* As skeep_norm; before, after and sum may be NULL. sum may be x or before, y any input. */
struct skeep_norm_rows {
  const char *x, *before, *w, *after;
  char *sum, *y;
  int64_t x_stride, before_stride, after_stride, sum_stride, y_stride;
  size_t rows, n;
  float eps;
};
typedef void skeep_body_norm(const struct skeep_norm_rows *a);

/* Rotates tokens x heads rows; pair i of a token turns by position * theta[i]. y may be x. */
struct skeep_rope_rows {
  const char *x, *positions; /* I32, position_stride bytes apart */
  char *y;
  int64_t x_token, x_head, y_token, y_head, position_stride; /* bytes */
  size_t tokens, heads, head_dim, dims;
  const double *theta; /* dims/2, then 0 up to a multiple of 8 */
  float magnitude;     /* of cos and sin */
  uint32_t form;
  float *scratch; /* SKEEP_ROPE_SCRATCH(dims) floats */
};
#define SKEEP_ROPE_SCRATCH(dims) (((dims) / 2 + 7) / 8 * 8 * 6 + 16)
typedef void skeep_body_rope(const struct skeep_rope_rows *a);

/* One row of n F32 elements in the cache's encoding. Not 0 when an element became infinite, or was. */
typedef int skeep_body_kv_store(const char *in, size_t n, char *out);
/* The least magnitudes that round to infinity: half a unit above the largest number, whose mantissa is odd. */
#define SKEEP_F16_LIMIT 65520.0f
#define SKEEP_BF16_LIMIT 0x1.ffp127f

/* Query rows (token-major) against one chunk [begin, end) of positions of one sequence and KV head. Token t sees
 * the positions [lo[t], hi[t]), all stored, hi - lo <= capacity; k and v are slot 0, slots *_slot bytes apart. begin
 * is a multiple of SKEEP_ATTEND_BLOCK. Writes of each row its largest score (-inf without any), the sum of
 * exp(score - largest) and acc = sum of exp(score - largest) * shrink * value, rows round_up(v_dim, 8) apart. */
#define SKEEP_ATTEND_BLOCK 64
#define SKEEP_ATTEND_ROWS 32
struct skeep_attend_tile {
  const char *q, *k, *v;
  int64_t q_token, q_head, k_slot, v_slot; /* bytes */
  int64_t capacity, begin, end;
  const int64_t *lo, *hi;
  size_t tokens, heads, k_dim, v_dim; /* tokens * heads <= SKEEP_ATTEND_ROWS */
  float scale, softcap, shrink; /* shrink: a power of two */
  float *most, *sum, *acc;
  float *scratch; /* skeep_attend_scratch floats, 64-byte aligned */
};
static inline size_t skeep_attend_scratch(size_t rows, size_t k_dim, size_t v_dim) {
  k_dim = (k_dim + 7) / 8 * 8, v_dim = (v_dim + 7) / 8 * 8;
  return rows * (k_dim + SKEEP_ATTEND_BLOCK + 8 + 8) + SKEEP_ATTEND_BLOCK * (k_dim + v_dim);
}
typedef void skeep_body_attend(const struct skeep_attend_tile *a);

/* ---- the kernel table --------------------------------------------------------------------------
 * A row of generated/kernels_table.h is SKEEP_KERNEL(OP, type, encoding, activation, isa, body): OP as in SKEEP_OP_<OP>,
 * type as in skeep_body_<type>; isa one of PORTABLE, AVX2, AVX512, NEON, NEON_DOTPROD, NEON_I8MM; the function is
 * skeep_<body>, compiled by a unit isa_<isa>_*.c. */
struct skeep_kernel {
  skeep_kernel_info info;
  void (*body)(void); /* NULL where the instruction set is not of this architecture */
};
/* Row `row` of generated/kernels_table.h, in its order; NULL past the end. info.runnable says whether body may be called. */
const struct skeep_kernel *skeep_kernel_row(size_t row);
/* The best runnable row for exactly (op, encoding, activation, order), rows with SKEEP_ANY matching all;
 * NULL when there is none. Cheap enough for every call: the answer is tabulated at the first use. */
const struct skeep_kernel *skeep_kernel_find(uint32_t op, uint32_t encoding, uint32_t activation, skeep_order order);
/* The portable row of op for exactly this encoding: the executable specification. NULL when there is none. */
const struct skeep_kernel *skeep_kernel_portable(uint32_t op, uint32_t encoding);
/* skeep_select over checked views: the row that op runs on these operands, or why there is none. */
skeep_status skeep_select_row(uint32_t op, const skeep_view *const *operands, uint32_t count,
                              const struct skeep_kernel **row);
/* The facts of an encoding, NULL when the id is unknown. */
const skeep_encoding_info *skeep_encoding_find(uint32_t id);

/* What the processor and the operating system offer, after SKEEP_ISA; one bit per isa word of generated/kernels_table.h. */
enum skeep_feature {
  SKEEP_FEATURE_PORTABLE = 1u << 0,
  SKEEP_FEATURE_AVX2 = 1u << 1,
  SKEEP_FEATURE_AVX512 = 1u << 2,
  SKEEP_FEATURE_NEON = 1u << 3,
  SKEEP_FEATURE_NEON_DOTPROD = 1u << 4,
  SKEEP_FEATURE_NEON_I8MM = 1u << 5
};
uint32_t skeep_features(void);

/* ---- one operation ------------------------------------------------------------------------------
 * Every public op is: skeep_op_begin (liveness, pins, fields, formats, bounds of each operand, outputs
 * writable and not overlapping, layouts as ops.def lists them, none absent that is required), its own checks of formats
 * and extents, selection, skeep_pool_run over its tiles, skeep_op_end (of a bare call: verifies its mapped roots, then unpins; keeps a step's first error). */
struct skeep_op {
  skeep_pool *pool;
  skeep_step *step;
  const skeep_view *v[SKEEP_MAX_OPERANDS]; /* absent ones NULL; settled */
  skeep_view settled[SKEEP_MAX_OPERANDS];  /* those that differ from what the caller gave */
  uint32_t count;
  uint32_t pins;                              /* of a bare call: how many of */
  struct skeep_slot *pinned[SKEEP_MAX_OPERANDS]; /* the slots that it pinned */
  int error;                                     /* errno, which no call changes */
  uint64_t control;                              /* the caller's floating-point control: nor that */
  int opened;                                    /* SIGBUS was blocked on this thread, and is open until the end */
};
/* id: SKEEP_OP_*. On failure everything is undone and skeep_op_end must not be called. */
skeep_status skeep_op_begin(struct skeep_op *op, uint32_t id, skeep_pool *pool, skeep_step *step,
                            const skeep_view *const *operands, uint32_t count);
skeep_status skeep_op_end(struct skeep_op *op, skeep_status status);

/* Bit i of each: operand i is written; is an input that an output may be exactly (same data and layout); must be there. */
struct skeep_roles {
  uint32_t outputs, in_place, required;
};
struct skeep_roles skeep_operand_roles(uint32_t op, uint32_t count);
/* Whether operands lie as op can take them, those that are there: else ERR_LAYOUT, detail: the axis. */
skeep_status skeep_operands_check(uint32_t op, const skeep_view *const *operands, uint32_t count);
/* v, or *copy with the stride 0 on each axis of one cell: that stride leads nowhere, may be any number, and arithmetic
 * with it could overflow. Strides of panels are facts of their plane and stay. v is not checked yet. */
const skeep_view *skeep_operand_settled(const skeep_view *v, skeep_view *copy);

/* Runs task(arg, index, scratch) for index in [0, tasks) on the pool's workers and the caller, each index
 * once, in any order; returns after all are done. ERR_FAULT when a mapped page faulted. */
typedef void skeep_task(void *arg, uint32_t index, void *scratch);
skeep_status skeep_pool_run(skeep_pool *pool, skeep_task *task, void *arg, uint32_t tasks);
size_t skeep_pool_scratch(const skeep_pool *pool); /* bytes that each task's scratch has, 64-byte aligned */
/* Several regions in a row, with a buffer that nobody else touches from the first to the last: what an operation
 * would else have on its caller's stack, which may be small. skeep_pool_run is one region in a turn of its own. */
#define SKEEP_POOL_SHARED (64u << 10)
struct skeep_turn {
  skeep_pool *pool;
  void *shared; /* SKEEP_POOL_SHARED bytes, 64-byte aligned */
  int is_main;
};
struct skeep_turn skeep_turn_take(skeep_pool *pool);
skeep_status skeep_turn_run(const struct skeep_turn *turn, skeep_task *task, void *arg, uint32_t tasks);
void skeep_turn_give(const struct skeep_turn *turn);
/* Counts an operation as a user of the pool, for which skeep_pool_destroy waits. */
void skeep_pool_enter(skeep_pool *pool);
void skeep_pool_leave(skeep_pool *pool);

/* Runs f(arg) on this thread; 0 when it returned, else the address of the mapped page that could not be read
 * (f was left where it stood). Nests. Costs about 15 ns. The thread must not block SIGBUS. */
uint64_t skeep_guarded(void (*f)(void *arg), void *arg);
/* Lets SIGBUS through on this thread, once the guard is installed; 1 when it was blocked: skeep_guard_shut then
 * blocks it again. A thread that was open once in a step (its serial, 0 = none) is not asked again. */
int skeep_guard_open(uint64_t step);
void skeep_guard_shut(void);
#define SKEEP_MATMUL_SCRATCH (512u << 10)

/* skeep_get of every element, in logical order, rounded to float: one check, pin and verification for all of them. */
skeep_status skeep_get_all(const skeep_view *view, float *values);

/* As a function's first line: errno is afterwards what it was before. */
static inline void skeep_errno_restore(const int *before) { errno = *before; }
#define SKEEP_KEEP_ERRNO const int errno_before __attribute__((unused, cleanup(skeep_errno_restore))) = errno

static inline skeep_status skeep_ok(void) { return (skeep_status){SKEEP_OK, -1, 0}; }
static inline skeep_status skeep_fail(int32_t code, int32_t operand, uint64_t detail) {
  return (skeep_status){code, operand, detail};
}

/* ---- floating-point control ---------------------------------------------------------------------
 * Of the calling thread: how floats are rounded, which exceptions trap, what becomes of subnormal numbers. Everything
 * is computed under SKEEP_FLOAT_DEFAULT, whatever the host's threads have: round to nearest, no traps, subnormals
 * kept. An operation takes it from its begin to its end, a worker for its life. */
#if defined(__x86_64__)
#define SKEEP_FLOAT_DEFAULT 0x1f80u
#define SKEEP_FLOAT_FLAGS 0x3fu /* exceptions that were raised: no control, and in the same register */
#else
#define SKEEP_FLOAT_DEFAULT 0u
#define SKEEP_FLOAT_FLAGS 0u
#endif
static inline uint64_t skeep_float_control(void) {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr();
#else
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
#endif
}
static inline void skeep_float_restore(uint64_t control) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((unsigned)control);
#else
  __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
#endif
}
/* The default in the place of the host's control, which it returns for skeep_float_give to put back. Writing the
 * register costs more than reading it. */
static inline uint64_t skeep_float_take(void) {
  const uint64_t control = skeep_float_control();
  if ((control & ~(uint64_t)SKEEP_FLOAT_FLAGS) != SKEEP_FLOAT_DEFAULT) skeep_float_restore(SKEEP_FLOAT_DEFAULT);
  return control;
}
static inline void skeep_float_give(uint64_t control) {
  if ((control & ~(uint64_t)SKEEP_FLOAT_FLAGS) != SKEEP_FLOAT_DEFAULT) skeep_float_restore(control);
}
/* Subnormal operands and results count as zero from here on; returns what skeep_float_restore puts back. */
static inline uint64_t skeep_float_flush(void) {
  const uint64_t control = skeep_float_control();
#if defined(__x86_64__)
  skeep_float_restore(control | 0x8040u); /* FTZ, DAZ */
#else
  skeep_float_restore(control | 1u << 24); /* FZ */
#endif
  return control;
}

/* ---- views inside ------------------------------------------------------------------------------- */
static inline char *skeep_data(const skeep_view *v) { return (char *)(uintptr_t)v->data; }
/* Address of the cell (block, or element when dense) that holds logical index; in bounds by precondition. */
const char *skeep_cell(const skeep_view *v, const int64_t *index);

/* IEEE half and bfloat16, one value (all units; bodies use instructions where they have them). */
static inline float skeep_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu, bits;
  float f;
  if (e == 0) { /* zero or subnormal: m * 2^-24, exact */
    f = (float)m * 0x1p-24f;
    memcpy(&bits, &f, 4);
    bits |= sign;
  } else {
    bits = sign | (e == 31 ? 0x7f800000u : (e + 112u) << 23) | m << 13;
  }
  memcpy(&f, &bits, 4);
  return f;
}
static inline uint16_t skeep_f32_to_f16(float f) { /* round to nearest even */
  uint32_t x;
  memcpy(&x, &f, 4);
  uint32_t sign = (x >> 16) & 0x8000u, a = x & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (a < 0x38800000u) { /* below the smallest normal half: add so that the hardware rounds at bit 2^-24 */
    float m;
    memcpy(&m, &a, 4);
    m += 0.5f;
    uint32_t r;
    memcpy(&r, &m, 4);
    return (uint16_t)(sign | (r - 0x3f000000u));
  }
  a += 0xfffu + (a >> 13 & 1u);
  return (uint16_t)(sign | (a - 0x38000000u) >> 13);
}
static inline float skeep_bf16_to_f32(uint16_t h) {
  uint32_t x = (uint32_t)h << 16;
  float f;
  memcpy(&f, &x, 4);
  return f;
}
static inline uint16_t skeep_f32_to_bf16(float f) {
  uint32_t x;
  memcpy(&x, &f, 4);
  if ((x & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(x >> 16 | 0x40u);
  return (uint16_t)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);
}

/* Prototypes of all bodies, so that each definition is checked against the type of its row. */
#define SKEEP_KERNEL(OP, type, encoding, activation, isa, body) skeep_body_##type skeep_##body;
#include "generated/kernels_table.h"
#undef SKEEP_KERNEL

#endif
