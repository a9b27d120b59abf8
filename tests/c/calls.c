/* Calls every public function and checks that none changes errno, whether it succeeds or fails, and that none needs
 * more stack than the header says. The table of calls is compared with the header, so that no function is missing. */
#include "check.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#define MARK 4711 /* no error has this number */

static const char *caller;

/* One call with a marked errno. */
static void kept(int error, int line, const char *what) {
  if (error == MARK) return;
  char found[64];
  snprintf(found, sizeof found, "%s: errno becomes %d", caller, error);
  check_note(0, __FILE__, line, what, found);
}
#define KEEPS(expression)                \
  do {                                   \
    errno = MARK;                        \
    expression;                          \
    kept(errno, __LINE__, #expression);  \
  } while (0)
#define GIVES(expected, call)                                                        \
  do {                                                                               \
    skeep_status status_;                                                            \
    KEEPS(status_ = (call));                                                         \
    if (status_.code != (expected)) CHECK_FAILS(status_, (expected));                \
  } while (0)
#define OK(call) GIVES(SKEEP_OK, call)

/* What the calls work on, made once. */
static skeep_pool *pool;
static skeep_step *step;
static skeep_storage memory, mapped; /* both: room for every operand */
static int file = -1;

#define ROOM (8u << 20)
enum { T = 3, N = 512, ROWS = 40 }; /* N: a multiple of every block */

static uint64_t used;

/* The next free bytes as a view; operands of one call never overlap. */
static skeep_view take(uint32_t encoding, uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t shape[4] = {a, b, c, d};
  skeep_view v;
  uint64_t bytes = 0;
  NEED(skeep_bytes_of(encoding, rank, shape, &bytes).code == SKEEP_OK);
  NEED(skeep_view_of(memory, used, encoding, rank, shape, &v).code == SKEEP_OK);
  used += (bytes + 63) / 64 * 64;
  return v;
}
static skeep_view take_floats(uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d, float scale) {
  uint64_t state = used + 1;
  const skeep_view v = take(SKEEP_F32, rank, a, b, c, d);
  for (uint64_t i = 0; i < v.bytes / sizeof(float); i++) check_floats(&v)[i] = scale * check_float(&state);
  return v;
}
static skeep_view take_ints(int64_t n, int32_t first) {
  const skeep_view v = take(SKEEP_I32, 1, n, 0, 0, 0);
  for (int32_t i = 0; i < n; i++) ((int32_t *)(void *)check_bytes(&v))[i] = first + i;
  return v;
}

/* ---- the table ---- */

static void abi_version(void) { KEEPS(CHECK(skeep_abi_version() == SKEEP_ABI_VERSION)); }
static void status_text(void) {
  char text[300];
  for (int32_t code = -1; code < 20; code++) KEEPS(skeep_status_text((skeep_status){code, code, 1}, text, sizeof text));
}
static void encoding_count(void) { KEEPS(skeep_encoding_count()); }
static void encoding_at(void) {
  skeep_encoding_info info;
  OK(skeep_encoding_at(0, &info));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_encoding_at(SIZE_MAX, &info));
}
static void kernel_count(void) { KEEPS(skeep_kernel_count()); }
static void kernel_at(void) {
  skeep_kernel_info info;
  OK(skeep_kernel_at(0, &info));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_kernel_at(SIZE_MAX, &info));
}
static void isa(void) { KEEPS(skeep_isa()); }
static void isa_name(void) { KEEPS(skeep_isa_name(99)); }
static void op_name(void) { KEEPS(skeep_op_name(99)); }
static void counters_read(void) {
  skeep_counters counters;
  KEEPS(skeep_counters_read(&counters));
}
static void fault_guard_install(void) { OK(skeep_fault_guard_install()); }
static void bytes_of(void) {
  uint64_t bytes;
  OK(skeep_bytes_of(SKEEP_F32, 1, (const int64_t[]){4}, &bytes));
  GIVES(SKEEP_ERR_BOUNDS, skeep_bytes_of(SKEEP_F32, 2, (const int64_t[]){INT64_MAX, 4}, &bytes));
}
static void view_of(void) {
  skeep_view v;
  OK(skeep_view_of(memory, 0, SKEEP_F32, 1, (const int64_t[]){4}, &v));
  GIVES(SKEEP_ERR_BOUNDS, skeep_view_of(memory, ROOM, SKEEP_F32, 1, (const int64_t[]){4}, &v));
}
static void view_check(void) {
  skeep_view v = take(SKEEP_F32, 1, 4, 0, 0, 0);
  OK(skeep_view_check(&v));
  v.generation += 2;
  GIVES(SKEEP_ERR_CLOSED, skeep_view_check(&v));
}

static void storage_allocate(void) {
  skeep_storage s;
  OK(skeep_storage_allocate(100, 0, &s));
  OK(skeep_storage_close(s, NULL));
  GIVES(SKEEP_ERR_MEMORY, skeep_storage_allocate(1ull << 60, 0, &s)); /* the system says ENOMEM */
}
static void released(void *arg) {
  (void)arg;
  errno = EDOM; /* the host's own business */
}
static skeep_storage borrowed(void) {
  static char bytes[64];
  skeep_storage s;
  NEED(skeep_storage_borrow(bytes, sizeof bytes, SKEEP_DOMAIN_OFFHEAP, 0, released, NULL, &s).code == SKEEP_OK);
  return s;
}
static void storage_borrow(void) {
  skeep_storage s;
  char bytes[8];
  OK(skeep_storage_borrow(bytes, sizeof bytes, SKEEP_DOMAIN_HEAP, 0, NULL, NULL, &s));
  OK(skeep_storage_close(s, NULL));
  GIVES(SKEEP_ERR_NO_KERNEL, skeep_storage_borrow(bytes, sizeof bytes, SKEEP_DOMAIN_DEVICE, 0, NULL, NULL, &s));
}
static void storage_map(void) {
  skeep_storage s;
  OK(skeep_storage_map(file, 0, 100, &s));
  OK(skeep_storage_close(s, NULL));
  GIVES(SKEEP_ERR_IO, skeep_storage_map(-1, 0, 1, &s)); /* EBADF */
}
static void storage_info_of(void) {
  skeep_storage_info info;
  OK(skeep_storage_info_of(mapped, &info));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_storage_info_of((skeep_storage){1, 1}, &info));
}
static void storage_set_name(void) {
  OK(skeep_storage_set_name(mapped, "mapped"));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_storage_set_name((skeep_storage){1, 1}, "none"));
}
static void storage_name(void) {
  char text[300];
  KEEPS(skeep_storage_name(1, text, sizeof text));
  KEEPS(skeep_storage_name(UINT64_MAX, text, sizeof text));
}
static void storage_verify(void) {
  const int own = check_file(NULL, 100); /* those of other rows must not change */
  skeep_storage s;
  NEED(skeep_storage_map(own, 0, 100, &s).code == SKEEP_OK);
  OK(skeep_storage_verify(s));
  NEED(ftruncate(own, 101) == 0);
  GIVES(SKEEP_ERR_CHANGED, skeep_storage_verify(s));
  NEED(skeep_storage_close(s, NULL).code == SKEEP_OK && close(own) == 0);
}
static void storage_advise(void) {
  OK(skeep_storage_advise(mapped, 0, 100, SKEEP_ADVICE_WILLNEED));
  GIVES(SKEEP_ERR_BOUNDS, skeep_storage_advise(mapped, ROOM, 1, SKEEP_ADVICE_NORMAL));
}
static void storage_resident(void) {
  uint64_t bytes;
  OK(skeep_storage_resident(mapped, &bytes));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_storage_resident(memory, &bytes));
}
static void storage_close(void) {
  const skeep_storage s = borrowed();
  OK(skeep_storage_close(s, NULL));
  GIVES(SKEEP_ERR_CLOSED, skeep_storage_close(s, NULL));
}
static void storage_try_close(void) {
  const skeep_storage s = borrowed();
  skeep_storage pin;
  NEED(skeep_pin(s, &pin).code == SKEEP_OK);
  GIVES(SKEEP_ERR_BUSY, skeep_storage_try_close(s, NULL));
  NEED(skeep_unpin(pin).code == SKEEP_OK);
  OK(skeep_storage_try_close(s, NULL));
}
static void storage_left(void) {
  const skeep_storage s = borrowed();
  skeep_storage pin;
  uint64_t left;
  GIVES(SKEEP_ERR_ARGUMENT, skeep_storage_left(s, &left));
  NEED(skeep_pin(s, &pin).code == SKEEP_OK && skeep_storage_close(s, NULL).code == SKEEP_OK);
  OK(skeep_storage_left(s, &left));
  NEED(skeep_unpin(pin).code == SKEEP_OK);
}
static void mark_open(void) {
  skeep_storage mark;
  OK(skeep_mark_open(memory, &mark));
  OK(skeep_mark_release(mark, NULL));
  GIVES(SKEEP_ERR_CLOSED, skeep_mark_open(mark, &mark));
}
static void mark_release(void) { GIVES(SKEEP_ERR_ARGUMENT, skeep_mark_release(memory, NULL)); /* and see mark_open */ }
static void mark_renew(void) {
  skeep_storage mark;
  NEED(skeep_mark_open(memory, &mark).code == SKEEP_OK);
  OK(skeep_mark_renew(&mark, NULL));
  NEED(skeep_mark_release(mark, NULL).code == SKEEP_OK);
  GIVES(SKEEP_ERR_CLOSED, skeep_mark_renew(&mark, NULL));
}
static void storage_reset(void) {
  const skeep_storage s = borrowed();
  OK(skeep_storage_reset(s, NULL));
  NEED(skeep_storage_close(s, NULL).code == SKEEP_OK);
  GIVES(SKEEP_ERR_CLOSED, skeep_storage_reset(s, NULL));
}
static void pin(void) {
  const skeep_storage s = borrowed();
  skeep_storage p;
  OK(skeep_pin(s, &p));
  NEED(skeep_unpin(p).code == SKEEP_OK && skeep_storage_close(s, NULL).code == SKEEP_OK);
  GIVES(SKEEP_ERR_CLOSED, skeep_pin(s, &p));
}
static void unpin(void) {
  const skeep_storage s = borrowed();
  skeep_storage p;
  NEED(skeep_pin(s, &p).code == SKEEP_OK && skeep_storage_close(s, NULL).code == SKEEP_OK);
  OK(skeep_unpin(p)); /* the last one: runs the hook */
  GIVES(SKEEP_ERR_CLOSED, skeep_unpin(p));
}

static void pool_create(void) {
  skeep_pool *p;
  OK(skeep_pool_create(3, 0, &p));
  KEEPS(skeep_pool_destroy(p));
  GIVES(SKEEP_ERR_MEMORY, skeep_pool_create(1000, 1ull << 51, &p)); /* ENOMEM */
}
static void pool_threads(void) { KEEPS(skeep_pool_threads(pool)); }
static void pool_destroy(void) { KEEPS(skeep_pool_destroy(NULL)); /* and see pool_create */ }

static void step_create(void) {
  skeep_step *s;
  OK(skeep_step_create(4, 0, &s));
  KEEPS(skeep_step_destroy(s));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_step_create(UINT32_MAX, 0, &s));
}
static void step_frame(void) { KEEPS(skeep_step_frame(step)); }
static void step_begin(void) {
  OK(skeep_step_begin(step));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_step_begin(step));
  OK(skeep_step_end(step));
}
static void step_end(void) { GIVES(SKEEP_ERR_ARGUMENT, skeep_step_end(step)); }
static void step_status(void) { OK(skeep_step_status(step, NULL)); }
static void step_destroy(void) { KEEPS(skeep_step_destroy(NULL)); }

static void select_(void) {
  skeep_view x = take(SKEEP_F32, 2, T, N, 0, 0), w = take(SKEEP_F32, 2, ROWS, N, 0, 0);
  uint32_t row;
  OK(skeep_select(SKEEP_OP_MATMUL_T, (const skeep_view *const[]){&x, &w}, 2, &row));
  GIVES(SKEEP_ERR_ARGUMENT, skeep_select(99, (const skeep_view *const[]){&x, &w}, 2, &row));
}
static void get(void) {
  skeep_view v;
  double value;
  NEED(skeep_view_of(mapped, 0, SKEEP_ENC_Q6_K, 2, (const int64_t[]){2, N}, &v).code == SKEEP_OK);
  OK(skeep_get(&v, (const int64_t[]){1, 300}, &value));
  GIVES(SKEEP_ERR_INDEX, skeep_get(&v, (const int64_t[]){2, 0}, &value));
}
static void get_i64(void) {
  skeep_view v = take_ints(3, 5);
  int64_t value;
  OK(skeep_get_i64(&v, (const int64_t[]){1}, &value));
  GIVES(SKEEP_ERR_INDEX, skeep_get_i64(&v, (const int64_t[]){3}, &value));
}
static void reference_matmul_t(void) {
  skeep_view x = take_floats(2, T, N, 0, 0, 1), w = take_floats(2, 2, N, 0, 0, 1), y = take(SKEEP_F32, 2, T, 2, 0, 0);
  OK(skeep_reference_matmul_t(&x, &w, &y, NULL));
  GIVES(SKEEP_ERR_SHAPE, skeep_reference_matmul_t(&x, &y, &w, NULL));
}

/* Operations: as bare calls, and once in a step. */
#define OPERATION(name, ...)                                      \
  do {                                                            \
    OK(skeep_##name(pool, NULL, __VA_ARGS__));                    \
    OK(skeep_step_begin(step));                                   \
    OK(skeep_##name(pool, step, __VA_ARGS__));                    \
    OK(skeep_step_end(step));                                     \
    GIVES(SKEEP_ERR_ARGUMENT, skeep_##name(NULL, NULL, __VA_ARGS__)); \
  } while (0)

/* Each encoding of the table in turn. */
#define EACH_ENCODING(e)                                       \
  for (size_t e##_i = 0; e##_i < skeep_encoding_count(); e##_i++) \
    for (skeep_encoding_info e = {.id = UINT32_MAX};           \
         e.id == UINT32_MAX && skeep_encoding_at(e##_i, &e).code == SKEEP_OK && (used = 0, e.block_elements);)

static int is_row(uint32_t op, uint32_t encoding) {
  skeep_kernel_info k;
  for (size_t i = 0; skeep_kernel_at(i, &k).code == SKEEP_OK; i++)
    if (k.op == op && k.encoding == encoding && k.runnable) return 1;
  return 0;
}

static void convert(void) {
  EACH_ENCODING(e) {
    skeep_view x = take(e.id, 2, T, N, 0, 0), y = take(SKEEP_F32, 2, T, N, 0, 0), turned = x;
    if (e.id == SKEEP_ENC_A8 || !is_row(SKEEP_OP_DECODE, e.id)) continue;
    OPERATION(convert, &x, &y);
    if (e.block_elements > 1) continue;
    turned.layout.stride[0] = 1;
    turned.layout.stride[1] = T;
    OPERATION(convert, &turned, &y);
  }
}
static void encode(void) {
  EACH_ENCODING(e) {
    skeep_view x = take_floats(2, T, N, 0, 0, 2), y = take(e.id, 2, T, N, 0, 0);
    if (!is_row(SKEEP_OP_ENCODE, e.id)) continue;
    OPERATION(encode, &x, &y);
    check_floats(&x)[7] = NAN;
    GIVES(SKEEP_ERR_VALUE, skeep_encode(pool, NULL, &x, &y));
  }
}
static void prepack(void) {
  skeep_view x = take(SKEEP_ENC_Q4_K, 2, ROWS, N, 0, 0), y = take(SKEEP_ENC_Q4_K, 2, ROWS, N, 0, 0);
  y.layout.order.family = SKEEP_ORDER_ROW_PANEL;
  y.layout.order.panel = 8;
  y.layout.row_axis = 0;
  y.layout.stride[1] = 8;
  OPERATION(prepack, &x, &y);
}
static void quantize_rows(void) {
  skeep_view x = take_floats(2, T, N, 0, 0, 1e-30f), y = take(SKEEP_ENC_A8, 2, T, N, 0, 0);
  OPERATION(quantize_rows, &x, &y);
}
static void matmul_t(void) {
  EACH_ENCODING(e) {
    skeep_view x = take_floats(2, T, N, 0, 0, 1), a = take(SKEEP_ENC_A8, 2, T, N, 0, 0);
    skeep_view w = take(e.id, 2, ROWS, N, 0, 0), y = take(SKEEP_F32, 2, T, ROWS, 0, 0);
    OK(skeep_quantize_rows(pool, NULL, &x, &a));
    memset(check_bytes(&w), 0x35, w.bytes);
    uint32_t row;
    if (skeep_select(SKEEP_OP_MATMUL_T, (const skeep_view *const[]){&x, &w}, 2, &row).code == SKEEP_OK)
      OPERATION(matmul_t, &x, &w, &y);
    if (skeep_select(SKEEP_OP_MATMUL_T, (const skeep_view *const[]){&a, &w}, 2, &row).code == SKEEP_OK)
      OPERATION(matmul_t, &a, &w, &y);
  }
}
static void project(void) {
  skeep_view x = take_floats(2, T, N, 0, 0, 1), w = take_floats(2, ROWS, N, 0, 0, 1), y = take(SKEEP_F32, 2, T, ROWS, 0, 0);
  const skeep_view *const ws[] = {&w}, *const ys[] = {&y};
  OPERATION(project, &x, 1, ws, NULL, ys);
}
static void embed(void) {
  skeep_view table = take(SKEEP_ENC_Q4_0, 2, ROWS, N, 0, 0), ids = take_ints(T, 4), y = take(SKEEP_F32, 2, T, N, 0, 0);
  skeep_view wrong = take_ints(T, ROWS);
  OPERATION(embed, &table, &ids, 1, &y);
  GIVES(SKEEP_ERR_INDEX, skeep_embed(pool, NULL, &table, &wrong, 1, &y));
}
static void norm(void) {
  skeep_view x = take_floats(2, T, N, 0, 0, 1e-20f), w = take_floats(1, N, 0, 0, 0, 1), y = take(SKEEP_F32, 2, T, N, 0, 0);
  OPERATION(norm, &x, NULL, &w, NULL, 1e-6f, NULL, &y);
  OPERATION(norm, &x, &x, &w, &x, 1e-6f, NULL, &y);
}
static void rope(void) {
  skeep_view x = take_floats(3, T, 2, 64, 0, 1), positions = take_ints(T, 100000), y = take(SKEEP_F32, 3, T, 2, 64, 0);
  skeep_rope_params p = {.dims = 64, .base = 1e6f, .scale = 1, .attn_factor = 1, .form = SKEEP_ROPE_NEOX};
  OPERATION(rope, &x, &positions, NULL, p, &y);
  p.ext_factor = 1, p.beta_fast = 32, p.beta_slow = 1, p.original_context = 4096;
  OPERATION(rope, &x, &positions, NULL, p, &y);
}

enum { HEADS = 2, CAPACITY = 2048, K_DIM = 64, V_DIM = 40 };
static void kv_store(void) {
  static const uint32_t formats[] = {SKEEP_F32, SKEEP_F16, SKEEP_BF16};
  for (size_t i = 0; i < 3; i++) {
    used = 0;
    skeep_view k = take_floats(3, T, HEADS, K_DIM, 0, 1), v = take_floats(3, T, HEADS, V_DIM, 0, 1);
    skeep_view positions = take_ints(T, CAPACITY - 1), wrong = take_ints(T, -1);
    skeep_view keys = take(formats[i], 4, 1, HEADS, CAPACITY, K_DIM), values = take(formats[i], 4, 1, HEADS, CAPACITY, V_DIM);
    OPERATION(kv_store, &k, &v, &positions, NULL, &keys, &values);
    GIVES(SKEEP_ERR_INDEX, skeep_kv_store(pool, NULL, &k, &v, &wrong, NULL, &keys, &values));
  }
}
/* One token whose positions are spread over threads, and several whose weights vanish. */
static void attend(void) {
  static const uint32_t formats[] = {SKEEP_F32, SKEEP_F16, SKEEP_BF16};
  for (size_t i = 0; i < 3; i++)
    for (int64_t tokens = 1; tokens <= T; tokens += T - 1) {
      used = 0;
      skeep_view q = take_floats(3, tokens, HEADS, K_DIM, 0, 200), y = take(SKEEP_F32, 3, tokens, HEADS, V_DIM, 0);
      skeep_view floats = take_floats(4, 1, HEADS, CAPACITY, K_DIM, 10), positions = take_ints(tokens, CAPACITY - (int32_t)tokens);
      skeep_view keys = take(formats[i], 4, 1, HEADS, CAPACITY, K_DIM), values = take(formats[i], 4, 1, HEADS, CAPACITY, V_DIM);
      OK(skeep_convert(pool, NULL, &floats, &keys));
      const skeep_attend_params p = {.scale = 1};
      OPERATION(attend, &q, &keys, &values, &positions, NULL, p, &y);
      const skeep_attend_params capped = {.scale = 1, .softcap = 30, .window = 100};
      OPERATION(attend, &q, &keys, &values, &positions, NULL, capped, &y);
    }
}

static void glu(void) {
  skeep_view a = take_floats(2, T, N, 0, 0, 300), b = take_floats(2, T, N, 0, 0, 1), y = take(SKEEP_F32, 2, T, N, 0, 0);
  for (uint32_t form = SKEEP_GLU_SILU; form <= SKEEP_GLU_RELU; form++) OPERATION(glu, &a, &b, form, &y);
  GIVES(SKEEP_ERR_ARGUMENT, skeep_glu(pool, NULL, &a, &b, 99, &y));
}
static void add(void) {
  skeep_view a = take_floats(2, T, N, 0, 0, 3e38f), b = take_floats(1, N, 0, 0, 0, 3e38f), y = take(SKEEP_F32, 2, T, N, 0, 0);
  OPERATION(add, &a, &b, &y);
}
static void mul(void) {
  skeep_view a = take_floats(2, T, N, 0, 0, 3e38f), b = take_floats(1, N, 0, 0, 0, 3e38f), y = take(SKEEP_F32, 2, T, N, 0, 0);
  OPERATION(mul, &a, &b, &y);
}
static void softmax(void) {
  skeep_view x = take_floats(2, T, N, 0, 0, 1e4f), y = take(SKEEP_F32, 2, T, N, 0, 0);
  OPERATION(softmax, &x, 1, &y);
}
static void softcap(void) {
  skeep_view x = take_floats(2, T, N, 0, 0, 1e4f), y = take(SKEEP_F32, 2, T, N, 0, 0);
  OPERATION(softcap, &x, 30, &y);
}

#define ROW(name) {"skeep_" #name, name}
static const struct {
  const char *name;
  void (*run)(void);
} rows[] = {
    ROW(abi_version), ROW(status_text), ROW(encoding_count), ROW(encoding_at), ROW(kernel_count), ROW(kernel_at),
    ROW(isa), ROW(isa_name), ROW(op_name), ROW(counters_read), ROW(fault_guard_install), ROW(bytes_of), ROW(view_of),
    ROW(view_check), ROW(storage_allocate), ROW(storage_borrow), ROW(storage_map), ROW(storage_info_of),
    ROW(storage_set_name), ROW(storage_name), ROW(storage_verify), ROW(storage_advise), ROW(storage_resident),
    ROW(storage_close), ROW(storage_try_close), ROW(storage_left), ROW(mark_open), ROW(mark_release), ROW(mark_renew),
    ROW(storage_reset), ROW(pin), ROW(unpin), ROW(pool_create), ROW(pool_threads), ROW(pool_destroy), ROW(step_create),
    ROW(step_frame), ROW(step_begin), ROW(step_end), ROW(step_status), ROW(step_destroy), {"skeep_select", select_},
    ROW(get), ROW(get_i64), ROW(reference_matmul_t), ROW(convert), ROW(encode), ROW(prepack), ROW(quantize_rows),
    ROW(matmul_t), ROW(project), ROW(embed), ROW(norm), ROW(rope), ROW(kv_store), ROW(attend), ROW(glu), ROW(add), ROW(mul),
    ROW(softmax), ROW(softcap),
};
#define COUNT (sizeof rows / sizeof rows[0])

/* Every function that the header declares has a row. */
static void test_table(const char *header) {
  static char line[4096];
  char name[64];
  size_t declared = 0;
  FILE *f = fopen(header, "r");
  NEED(f != NULL);
  while (fgets(line, sizeof line, f)) {
    const char *at = line + 9;
    if (strncmp(line, "SKEEP_API ", 10)) continue;
    do at = strstr(at + 1, "skeep_");
    while (at && (sscanf(at, "%63[a-z0-9_]", name) != 1 || at[strlen(name)] != '('));
    if (!at) continue;
    declared++;
    size_t i = 0;
    while (i < COUNT && strcmp(rows[i].name, name)) i++;
    check_note(i < COUNT, __FILE__, __LINE__, "a row for", name);
  }
  fclose(f);
  CHECK(declared == COUNT);
}

/* ---- NULL ---- */

/* Functions that were called without each pointer that they take. */
static const char *bared[2 * COUNT];
static size_t bared_count;
static void bare(const char *name) {
  caller = name;
  if (bared_count && !strcmp(bared[bared_count - 1], name)) return;
  NEED(bared_count < 2 * COUNT);
  bared[bared_count++] = name;
}
static void check_refused(skeep_status s, int line) {
  check_status(s, SKEEP_ERR_ARGUMENT, -2, __FILE__, line, caller);
}
#define NULL_REFUSED(name, ...) (bare("skeep_" #name), check_refused(skeep_##name(__VA_ARGS__), __LINE__))
#define NULL_IGNORED(name, ...) (bare("skeep_" #name), (void)skeep_##name(__VA_ARGS__))
/* Without the pool, and without each operand in turn that may not be absent (bits of needed). */
#define NULL_OPERANDS(name, needed, ...)                                          \
  do {                                                                            \
    const skeep_view *v[6] = {&x, &x, &x, &x, &x, &x};                            \
    skeep_pool *p = NULL;                                                         \
    bare("skeep_" #name);                                                         \
    check_refused(skeep_##name(p, NULL, __VA_ARGS__), __LINE__);                  \
    p = pool;                                                                     \
    for (int i = 0; i < 6; i++) {                                                 \
      if (!((needed) >> i & 1)) continue;                                         \
      v[i] = NULL; /* what is wrong with the others may be found first */         \
      CHECK(skeep_##name(p, NULL, __VA_ARGS__).code != SKEEP_OK);                 \
      v[i] = &x;                                                                  \
    }                                                                             \
    for (int i = 0; i < 6; i++) v[i] = NULL;                                      \
    CHECK(skeep_##name(p, NULL, __VA_ARGS__).code != SKEEP_OK);                   \
  } while (0)

static void call_bare(void) {
  static const int64_t shape[] = {4};
  skeep_view x = take_floats(1, 4, 0, 0, 0, 1);
  const skeep_view *const none[3] = {NULL}, *const some[3] = {&x, &x, &x};
  uint64_t number;
  uint32_t row;
  double value;
  int64_t integer;
  bared_count = 0;
  NULL_IGNORED(status_text, (skeep_status){SKEEP_ERR_FORMAT, 1, 2}, NULL, 100);
  NULL_IGNORED(counters_read, NULL);
  NULL_IGNORED(storage_name, 1, NULL, 100);
  NULL_IGNORED(pool_threads, NULL);
  NULL_IGNORED(pool_destroy, NULL);
  NULL_IGNORED(step_frame, NULL);
  NULL_IGNORED(step_destroy, NULL);
  NULL_IGNORED(storage_set_name, memory, NULL);
  NULL_REFUSED(encoding_at, 0, NULL);
  NULL_REFUSED(kernel_at, 0, NULL);
  NULL_REFUSED(bytes_of, SKEEP_F32, 1, NULL, &number);
  NULL_REFUSED(bytes_of, SKEEP_F32, 1, shape, NULL);
  NULL_REFUSED(view_of, memory, 0, SKEEP_F32, 1, NULL, &x);
  NULL_REFUSED(view_of, memory, 0, SKEEP_F32, 1, shape, NULL);
  NULL_REFUSED(view_check, NULL);
  NULL_REFUSED(storage_allocate, 64, 0, NULL);
  NULL_REFUSED(storage_borrow, NULL, 64, SKEEP_DOMAIN_HEAP, 0, NULL, NULL, &(skeep_storage){0, 0});
  NULL_REFUSED(storage_borrow, bared, 64, SKEEP_DOMAIN_HEAP, 0, NULL, NULL, NULL);
  NULL_REFUSED(storage_map, file, 0, 64, NULL);
  NULL_REFUSED(storage_info_of, memory, NULL);
  NULL_REFUSED(storage_resident, mapped, NULL);
  NULL_REFUSED(storage_left, memory, NULL);
  NULL_REFUSED(storage_close, (skeep_storage){0, 0}, NULL); /* handles of zeros as well; a step is optional */
  NULL_REFUSED(storage_try_close, (skeep_storage){0, 0}, NULL);
  NULL_REFUSED(storage_reset, (skeep_storage){0, 0}, NULL);
  NULL_REFUSED(mark_open, memory, NULL);
  NULL_REFUSED(mark_release, (skeep_storage){0, 0}, NULL);
  NULL_REFUSED(mark_renew, NULL, NULL);
  NULL_REFUSED(pin, memory, NULL);
  NULL_REFUSED(pool_create, 1, 0, NULL);
  NULL_REFUSED(step_create, 0, 0, NULL);
  NULL_REFUSED(step_begin, NULL);
  NULL_REFUSED(step_end, NULL);
  NULL_REFUSED(step_status, NULL, NULL);
  NULL_REFUSED(select, SKEEP_OP_SOFTMAX, NULL, 2, &row);
  NULL_REFUSED(select, SKEEP_OP_SOFTMAX, some, 2, NULL);
  NULL_REFUSED(select, SKEEP_OP_SOFTMAX, none, 2, &row);
  NULL_REFUSED(get, NULL, shape, &value);
  NULL_REFUSED(get, &x, NULL, &value);
  NULL_REFUSED(get, &x, shape, NULL);
  NULL_REFUSED(get_i64, NULL, shape, &integer);
  NULL_REFUSED(get_i64, &x, NULL, &integer);
  NULL_REFUSED(get_i64, &x, shape, NULL);
  NULL_REFUSED(reference_matmul_t, NULL, &x, &x, NULL);
  NULL_REFUSED(reference_matmul_t, &x, NULL, &x, NULL);
  NULL_REFUSED(reference_matmul_t, &x, &x, NULL, NULL);
  NULL_REFUSED(project, pool, NULL, &x, 1, NULL, NULL, some);
  NULL_REFUSED(project, pool, NULL, &x, 1, some, NULL, NULL);
  NULL_REFUSED(project, pool, NULL, NULL, 1, none, none, none);
  NULL_REFUSED(project, NULL, NULL, &x, 1, some, some, some);
  NULL_OPERANDS(convert, 3, v[0], v[1]);
  NULL_OPERANDS(encode, 3, v[0], v[1]);
  NULL_OPERANDS(prepack, 3, v[0], v[1]);
  NULL_OPERANDS(quantize_rows, 3, v[0], v[1]);
  NULL_OPERANDS(matmul_t, 7, v[0], v[1], v[2]);
  NULL_OPERANDS(embed, 7, v[0], v[1], 1, v[2]);
  NULL_OPERANDS(norm, 1 | 4 | 32, v[0], v[1], v[2], v[3], 0, v[4], v[5]);
  NULL_OPERANDS(rope, 1 | 2 | 8, v[0], v[1], v[2], (skeep_rope_params){.dims = 2, .base = 2, .scale = 1}, v[3]);
  NULL_OPERANDS(kv_store, 1 | 2 | 4 | 16 | 32, v[0], v[1], v[2], v[3], v[4], v[5]);
  NULL_OPERANDS(attend, 1 | 2 | 4 | 8 | 32, v[0], v[1], v[2], v[3], v[4], (skeep_attend_params){.scale = 1}, v[5]);
  NULL_OPERANDS(glu, 7, v[0], v[1], 0, v[2]);
  NULL_OPERANDS(add, 7, v[0], v[1], v[2]);
  NULL_OPERANDS(mul, 7, v[0], v[1], v[2]);
  NULL_OPERANDS(softmax, 3, v[0], 1, v[1]);
  NULL_OPERANDS(softcap, 3, v[0], 1, v[1]);
}

/* Every declared function that takes a pointer was called without it. */
static void test_null(const char *header) {
  static char text[1 << 20];
  char name[64];
  FILE *f = fopen(header, "r");
  NEED(f != NULL);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  used = 0;
  call_bare();
  for (char *at = text; (at = strstr(at, "\nSKEEP_API ")) != NULL;) {
    char *open = strchr(at, '('), *const end = strstr(at, ");");
    NEED(open && end);
    char *from = open;
    while (strchr("abcdefghijklmnopqrstuvwxyz_0123456789", from[-1])) from--;
    snprintf(name, sizeof name, "%.*s", (int)(open - from), from);
    at = end;
    if (!memchr(open, '*', (size_t)(end - open))) continue;
    size_t i = 0;
    while (i < bared_count && strcmp(bared[i], name)) i++;
    check_note(i < bared_count, __FILE__, __LINE__, "a call without pointers of", name);
  }
}

static void run_rows(void) {
  for (size_t i = 0; i < COUNT; i++) {
    used = 0;
    caller = rows[i].name;
    rows[i].run();
  }
}

/* ---- stacks ---- */

#ifdef SKEEP_STACK
#define STACK (256u << 10)
#define PAINT 0xa5

static void *one_row(void *p) {
  used = 0;
  ((void (*)(void))(uintptr_t)p)();
  return NULL;
}

/* Bytes of a fresh stack that a thread running this row touches. */
static size_t stack_of(char *stack, void (*run)(void)) {
  pthread_attr_t attributes;
  pthread_t thread;
  size_t untouched = 0;
  memset(stack, PAINT, STACK);
  NEED(!pthread_attr_init(&attributes) && !pthread_attr_setstack(&attributes, stack, STACK));
  NEED(!pthread_create(&thread, &attributes, one_row, (void *)(uintptr_t)run) && !pthread_join(thread, NULL));
  pthread_attr_destroy(&attributes);
  while (untouched < STACK && (unsigned char)stack[untouched] == PAINT) untouched++;
  return STACK - untouched;
}

static void nothing(void) {}

static void test_stacks(void) {
  char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEED(stack != MAP_FAILED);
  const size_t baseline = stack_of(stack, nothing);
  size_t largest = 0;
  for (size_t i = 0; i < COUNT; i++) {
    const size_t n = stack_of(stack, rows[i].run) - baseline;
    char found[96];
    snprintf(found, sizeof found, "%s takes %zu bytes", rows[i].name, n);
    check_note(n <= SKEEP_STACK, __FILE__, __LINE__, "a small stack is enough", found);
    if (n > largest) largest = n;
  }
  printf("a thread takes %zu bytes of stack, a call at most %zu more\n", baseline, largest);
  munmap(stack, STACK);
}
#endif

int main(int argc, char **argv) {
  NEED(argc == 2);
  test_table(argv[1]);
  file = check_file(NULL, ROOM);
  NEED(skeep_storage_allocate(ROOM, 0, &memory).code == SKEEP_OK && skeep_storage_map(file, 0, ROOM, &mapped).code == SKEEP_OK);
  NEED(skeep_step_create(0, 0, &step).code == SKEEP_OK);
  /* A pool that leaves all work to its caller, and one whose caller shares it. */
  for (uint32_t threads = 1; threads <= 5; threads += 4) {
    NEED(skeep_pool_create(threads, 0, &pool).code == SKEEP_OK);
    for (int again = 0; again < 2; again++) run_rows();
    test_null(argv[1]);
#ifdef SKEEP_STACK
    test_stacks();
#endif
    skeep_pool_destroy(pool);
  }
  skeep_step_destroy(step);
  CHECK_OK(skeep_storage_close(mapped, NULL));
  CHECK_OK(skeep_storage_close(memory, NULL));
  close(file);
  return check_result();
}
