/* Results do not depend on the floating-point control (rounding, traps, treatment of subnormals) of the calling thread
 * or of the thread that created the pool, and the caller has its own control again after each call, even after a
 * fault. */
#include "check.h"

#include <unistd.h>

/* The control register without the flags of raised exceptions, which calls need not preserve. */
#if defined(__x86_64__)
#define DEFAULT 0x1f80u
#define TRAPS 0x1f80u /* masks: a set bit keeps the exception from trapping */
#define FLUSHES 0x8040u
#define ROUNDING 13
static uint32_t control(void) { return __builtin_ia32_stmxcsr() & ~0x3fu; }
static void control_set(uint32_t word) { __builtin_ia32_ldmxcsr(word); }
#else
#define DEFAULT 0u
#define TRAPS 0x9f00u /* where the processor has them */
#define FLUSHES (1u << 24)
#define ROUNDING 22
static uint32_t control(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return (uint32_t)word;
}
static void control_set(uint32_t word) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)word) : "memory"); }
#endif

/* Between the two changes of the control register, only skeep computes with floats. */
static uint32_t word = DEFAULT;
static const char *caller = "";
#define GIVES(expected, call)                                                                 \
  do {                                                                                        \
    char found_[160];                                                                         \
    control_set(word);                                                                        \
    const uint32_t before_ = control();                                                       \
    const skeep_status status_ = (call);                                                      \
    const uint32_t after_ = control();                                                        \
    control_set(DEFAULT);                                                                     \
    snprintf(found_, sizeof found_, "%s: %#x becomes %#x", caller, before_, after_);          \
    check_note(before_ == after_, __FILE__, __LINE__, "the caller's control stays", found_);  \
    if (status_.code != (expected)) CHECK_FAILS(status_, (expected));                         \
  } while (0)
#define RUN(call) GIVES(SKEEP_OK, call)

/* ---- operands ---- */

#define ROOM (16u << 20)
enum { T = 64, N = 512, ROWS = 96, HEADS = 2, CAPACITY = 1024, DIM = 64, ENCODED = 2 };
struct arena {
  skeep_storage storage;
  uint64_t used;
  char *bytes;
};
static struct arena inputs, outputs;
static skeep_pool *pool;

/* Where each result is in the outputs. */
static struct {
  const char *name;
  uint64_t end;
} parts[200];
static size_t part_count;

static skeep_view take(struct arena *a, uint32_t encoding, uint32_t rank, const int64_t *shape) {
  skeep_view v;
  uint64_t bytes = 0;
  NEED(skeep_bytes_of(encoding, rank, shape, &bytes).code == SKEEP_OK);
  NEED(skeep_view_of(a->storage, a->used, encoding, rank, shape, &v).code == SKEEP_OK);
  a->used += (bytes + 63) / 64 * 64;
  return v;
}
#define SHAPE(...) sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__}

/* Rows of three kinds in turn: ordinary, far below the smallest normal number, and near the largest, with sums that
 * overflow. */
static skeep_view floats(uint32_t rank, const int64_t *shape, int wild) {
  static const float scales[] = {3, 1e-41f, 3e38f};
  uint64_t state = inputs.used + 1;
  const skeep_view v = take(&inputs, SKEEP_F32, rank, shape);
  const uint64_t row = (uint64_t)shape[rank - 1];
  for (uint64_t i = 0; i < v.bytes / sizeof(float); i++)
    check_floats(&v)[i] = check_float(&state) * (wild ? scales[i / row % 3] : i % 9 ? 1 : 1e-6f);
  return v;
}
static skeep_view counts(int64_t n, int32_t first) {
  const skeep_view v = take(&inputs, SKEEP_I32, 1, &n);
  for (int32_t i = 0; i < n; i++) ((int32_t *)(void *)check_bytes(&v))[i] = first + i;
  return v;
}
static skeep_view out(uint32_t encoding, uint32_t rank, const int64_t *shape) {
  const skeep_view v = take(&outputs, encoding, rank, shape);
  NEED(part_count < sizeof parts / sizeof parts[0]);
  parts[part_count].name = caller;
  parts[part_count++].end = outputs.used;
  return v;
}

static int is_row(uint32_t op, uint32_t encoding) {
  skeep_kernel_info k;
  for (size_t i = 0; skeep_kernel_at(i, &k).code == SKEEP_OK; i++)
    if (k.op == op && k.encoding == encoding && k.runnable) return 1;
  return 0;
}

/* ---- every computation ---- */

static void elementwise(void) {
  const skeep_view a = floats(SHAPE(T, N), 1), b = floats(SHAPE(T, N), 1), w = floats(SHAPE(N), 0);
  skeep_view y;
#define Y(...) (y = out(SKEEP_F32, SHAPE(__VA_ARGS__)), &y)
  caller = "norm";
  RUN(skeep_norm(pool, NULL, &a, NULL, &w, NULL, 0, NULL, Y(T, N)));
  caller = "norm with additions";
  RUN(skeep_norm(pool, NULL, &a, &b, &w, &b, 1e-6f, NULL, Y(T, N)));
  caller = "add";
  RUN(skeep_add(pool, NULL, &a, &b, Y(T, N)));
  caller = "mul";
  RUN(skeep_mul(pool, NULL, &a, &w, Y(T, N)));
  caller = "softmax";
  RUN(skeep_softmax(pool, NULL, &a, 3, Y(T, N)));
  caller = "softcap";
  RUN(skeep_softcap(pool, NULL, &a, 30, Y(T, N)));
  caller = "glu";
  for (uint32_t form = SKEEP_GLU_SILU; form <= SKEEP_GLU_RELU; form++) RUN(skeep_glu(pool, NULL, &a, &b, form, Y(T, N)));
}

static void formats(void) {
  static const uint32_t dense[] = {SKEEP_F16, SKEEP_BF16};
  const skeep_view wild = floats(SHAPE(T, N), 1), x = floats(SHAPE(ENCODED, N), 0), ids = counts(T, 3);
  skeep_view y;
  caller = "convert";
  for (size_t i = 0; i < 2; i++) {
    y = out(dense[i], SHAPE(T, N));
    RUN(skeep_convert(pool, NULL, &wild, &y));
  }
  caller = "quantize_rows";
  y = out(SKEEP_ENC_A8, SHAPE(T, N));
  RUN(skeep_quantize_rows(pool, NULL, &wild, &y));
  skeep_encoding_info e;
  for (size_t i = 0; skeep_encoding_at(i, &e).code == SKEEP_OK; i++) {
    if (!e.block_elements || e.id == SKEEP_ENC_A8 || !is_row(SKEEP_OP_ENCODE, e.id)) continue;
    caller = e.name;
    y = out(e.id, SHAPE(ENCODED, N));
    RUN(skeep_encode(pool, NULL, &x, &y));
  }
  skeep_view table = take(&inputs, SKEEP_ENC_Q4_K, SHAPE(T + 3, N));
  memset(check_bytes(&table), 0x25, table.bytes);
  caller = "embed";
  RUN(skeep_embed(pool, NULL, &table, &ids, 0.3f, Y(T, N)));
  caller = "convert of Q4_K";
  RUN(skeep_convert(pool, NULL, &table, Y(T + 3, N)));
}

static void products(void) {
  const skeep_view x = floats(SHAPE(T, N), 0), two = floats(SHAPE(2, N), 1), bias = floats(SHAPE(ROWS), 1);
  const skeep_view few = floats(SHAPE(2, N), 0);
  skeep_view a = take(&inputs, SKEEP_ENC_A8, SHAPE(T, N)), y;
  NEED(skeep_quantize_rows(pool, NULL, &x, &a).code == SKEEP_OK);
  skeep_encoding_info e;
  for (size_t i = 0; skeep_encoding_at(i, &e).code == SKEEP_OK; i++) {
    if (!e.block_elements || e.id == SKEEP_ENC_A8 || !is_row(SKEEP_OP_MATMUL_T, e.id)) continue;
    skeep_view w = take(&inputs, e.id, SHAPE(ROWS, N));
    memset(check_bytes(&w), 0x25, w.bytes);
    uint32_t row;
    caller = e.name;
    for (int integer = 0; integer < 2; integer++) {
      const skeep_view *const v[] = {integer ? &a : &x, &w};
      if (skeep_select(SKEEP_OP_MATMUL_T, v, 2, &row).code == SKEEP_OK) RUN(skeep_matmul_t(pool, NULL, v[0], &w, Y(T, ROWS)));
    }
    RUN(skeep_reference_matmul_t(&few, &two, Y(2, 2), NULL));
  }
  const skeep_view w = floats(SHAPE(ROWS, N), 0);
  const skeep_view *const ws[] = {&w}, *const biases[] = {&bias};
  y = out(SKEEP_F32, SHAPE(T, ROWS));
  const skeep_view *const ys[] = {&y};
  caller = "project";
  RUN(skeep_project(pool, NULL, &x, 1, ws, biases, ys));
}

static void positions(void) {
  const skeep_view x = floats(SHAPE(T, HEADS, DIM), 0), at = counts(T, CAPACITY - T), far = counts(T, 100000);
  const skeep_view k = floats(SHAPE(1, HEADS, CAPACITY, DIM), 0), v = floats(SHAPE(1, HEADS, CAPACITY, DIM), 1);
  const skeep_view one = floats(SHAPE(1, HEADS, DIM), 0), last = counts(1, CAPACITY - 1);
  skeep_view y, keys, values;
  const skeep_rope_params turn = {.form = SKEEP_ROPE_NEOX, .dims = DIM, .base = 1e6f, .scale = 0.3f, .ext_factor = 1,
                                  .attn_factor = 1.1f, .beta_fast = 32, .beta_slow = 1, .original_context = 4096};
  caller = "rope";
  RUN(skeep_rope(pool, NULL, &x, &far, NULL, turn, Y(T, HEADS, DIM)));
  caller = "kv_store";
  keys = out(SKEEP_F16, SHAPE(1, HEADS, CAPACITY, DIM));
  values = out(SKEEP_F16, SHAPE(1, HEADS, CAPACITY, DIM));
  RUN(skeep_kv_store(pool, NULL, &x, &x, &at, NULL, &keys, &values));
  const skeep_attend_params plain = {.scale = 3}, capped = {.scale = 3, .softcap = 5};
  caller = "attend of many";
  RUN(skeep_attend(pool, NULL, &x, &k, &v, &at, NULL, plain, Y(T, HEADS, DIM)));
  caller = "attend of one";
  RUN(skeep_attend(pool, NULL, &one, &k, &v, &last, NULL, capped, Y(1, HEADS, DIM)));
}

static void elements(void) {
  const skeep_view x = floats(SHAPE(3, N), 1);
  skeep_view q = take(&inputs, SKEEP_ENC_Q6_K, SHAPE(1, N)), to = out(SKEEP_F64, SHAPE(4));
  memset(check_bytes(&q), 0x03, q.bytes);
  double *values = (double *)(void *)check_bytes(&to);
  caller = "get";
  for (int64_t i = 0; i < 3; i++) RUN(skeep_get(&x, (const int64_t[]){i, 7}, &values[i]));
  RUN(skeep_get(&q, (const int64_t[]){0, 300}, &values[3]));
}

/* Refused calls, before and behind the begin, and a fault in the middle of a product. */
static skeep_view mapped;
static void failures(void) {
  const skeep_view x = floats(SHAPE(T, N), 0);
  skeep_view closed = x, y = out(SKEEP_F32, SHAPE(T, ROWS));
  double value;
  closed.generation += 2;
  caller = "what fails";
  GIVES(SKEEP_ERR_CLOSED, skeep_softmax(pool, NULL, &closed, 1, &y));
  GIVES(SKEEP_ERR_SHAPE, skeep_softmax(pool, NULL, &x, 1, &y));
  GIVES(SKEEP_ERR_LAYOUT, (closed = x, closed.layout.stride[1] = 2, closed.layout.shape[1] = N / 2,
                           skeep_softmax(pool, NULL, &closed, 1, &y)));
  GIVES(SKEEP_ERR_FAULT, skeep_matmul_t(pool, NULL, &x, &mapped, &y));
  GIVES(SKEEP_ERR_FAULT, skeep_get(&mapped, (const int64_t[]){0, 0}, &value));
}

static void run_all(char *results) {
  inputs.used = outputs.used = part_count = 0;
  memset(outputs.bytes, 0x5a, ROOM);
  elementwise();
  formats();
  products();
  positions();
  elements();
  memcpy(results, outputs.bytes, outputs.used);
  failures(); /* of which outputs are unspecified */
}

static void compare(const char *expected, const char *found, const char *where) {
  uint64_t from = 0;
  for (size_t i = 0; i < part_count; from = parts[i++].end) {
    char text[200];
    const int same = i + 1 == part_count || !memcmp(expected + from, found + from, parts[i].end - from);
    snprintf(text, sizeof text, "%s under %#x, %s", parts[i].name, word, where);
    check_note(same, __FILE__, __LINE__, "bits are those of the default", text);
  }
}

static void pool_make(uint32_t threads, uint32_t under) {
  control_set(under);
  const skeep_status st = skeep_pool_create(threads, 0, &pool);
  control_set(DEFAULT);
  NEED(st.code == SKEEP_OK);
}

static struct arena arena_new(void) {
  struct arena a = {.used = 0};
  skeep_storage_info info;
  NEED(skeep_storage_allocate(ROOM, 0, &a.storage).code == SKEEP_OK);
  NEED(skeep_storage_info_of(a.storage, &info).code == SKEEP_OK);
  a.bytes = (char *)(uintptr_t)info.address;
  return a;
}

int main(void) {
  static const int64_t shape[] = {ROWS, N};
  char *const expected = malloc(ROOM), *const found = malloc(ROOM);
  skeep_storage file;
  const int fd = check_file(NULL, sizeof(float) * ROWS * N);
  NEED(expected && found);
  NEED(skeep_fault_guard_install().code == SKEEP_OK);
  NEED(skeep_storage_map(fd, 0, sizeof(float) * ROWS * N, &file).code == SKEEP_OK);
  NEED(skeep_view_of(file, 0, SKEEP_F32, 2, shape, &mapped).code == SKEEP_OK && ftruncate(fd, 0) == 0);
  inputs = arena_new(), outputs = arena_new();

  pool_make(1, DEFAULT);
  run_all(expected);
  skeep_pool_destroy(pool);
  for (uint32_t i = 0; i < 16; i++) {
    const uint32_t odd = (DEFAULT ^ (i & 4 ? TRAPS : 0)) | (i & 3) << ROUNDING | (i & 8 ? FLUSHES : 0);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
      word = odd;
      pool_make(threads, odd);
      run_all(found);
      compare(expected, found, "the pool made in it");
      word = DEFAULT; /* of a caller whose workers come from elsewhere */
      run_all(found);
      compare(expected, found, "behind a pool that was made in another");
      skeep_pool_destroy(pool);
    }
  }
  CHECK_OK(skeep_storage_close(file, NULL));
  CHECK_OK(skeep_storage_close(inputs.storage, NULL));
  CHECK_OK(skeep_storage_close(outputs.storage, NULL));
  close(fd);
  free(expected);
  free(found);
  return check_result();
}
