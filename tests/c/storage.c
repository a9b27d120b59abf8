/* Every kind of storage, with its marks, pins and steps, as a host in C uses them. */
#include "check.h"

#include <unistd.h>

static const int64_t four[] = {4};

static void test_allocate(void) {
  skeep_counters before, during, after;
  skeep_storage s, other;
  skeep_storage_info info;
  skeep_view v;
  skeep_counters_read(&before);
  static const uint64_t alignments[] = {0, 1, 64, 4096, 2 << 20};
  for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
    const uint64_t a = alignments[i], bytes = 1000 + 3000000 * (i & 1); /* small and large ones */
    if (!CHECK_OK(skeep_storage_allocate(bytes, a, &s))) continue;
    CHECK_OK(skeep_storage_info_of(s, &info));
    CHECK(info.address % (a < 64 ? 64 : a) == 0 && info.bytes == bytes && info.domain == SKEEP_DOMAIN_OFFHEAP);
    CHECK(!info.readonly && !info.is_mark && !info.pins && info.id);
    const char *p = (const char *)(uintptr_t)info.address;
    uint64_t set = 0;
    for (uint64_t k = 0; k < bytes; k++) set += p[k] != 0;
    CHECK(set == 0);
    skeep_counters_read(&during);
    CHECK(during.storages == before.storages + 1 && during.offheap_bytes == before.offheap_bytes + bytes);
    CHECK_OK(skeep_storage_close(s, NULL));
    CHECK_FAILS(skeep_storage_close(s, NULL), SKEEP_ERR_CLOSED);
  }
  skeep_counters_read(&after);
  CHECK(after.storages == before.storages && after.offheap_bytes == before.offheap_bytes);

  CHECK_FAILS(skeep_storage_allocate(0, 0, &s), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_storage_allocate(16, 3, &s), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_storage_allocate(16, 4 << 20, &s), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_storage_allocate(16, 0, NULL), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_storage_allocate(UINT64_MAX / 4, 0, &s), SKEEP_ERR_MEMORY);

  /* A handle stays closed when its slot is used for another storage. */
  NEED(skeep_storage_allocate(64, 0, &s).code == SKEEP_OK);
  CHECK_OK(skeep_view_of(s, 0, SKEEP_F32, 1, four, &v));
  CHECK_OK(skeep_storage_close(s, NULL));
  NEED(skeep_storage_allocate(64, 0, &other).code == SKEEP_OK);
  CHECK(other.cell == s.cell && other.generation > s.generation);
  CHECK_FAILS(skeep_storage_info_of(s, &info), SKEEP_ERR_CLOSED);
  CHECK_FAILS_ON(skeep_view_check(&v), SKEEP_ERR_CLOSED, 0);
  CHECK_OK(skeep_storage_close(other, NULL));

  /* Handles that never existed. */
  const skeep_storage forged[] = {{0, 0}, {1, 1}, {s.cell + 8, s.generation}, {UINT64_MAX - 255, 1}};
  for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++)
    CHECK_FAILS(skeep_storage_info_of(forged[i], &info), SKEEP_ERR_ARGUMENT);
}

static void count_release(void *arg) { __atomic_add_fetch((uint64_t *)arg, 1, __ATOMIC_SEQ_CST); }

static void test_borrow(void) {
  static float memory[16];
  const void *const address = memory;
  uint64_t released = 0, left = 0;
  skeep_storage s, pin, second;
  skeep_storage_info info;
  skeep_view v;
  CHECK_OK(skeep_storage_borrow(memory, sizeof memory, SKEEP_DOMAIN_HEAP, 0, count_release, &released, &s));
  CHECK_OK(skeep_storage_info_of(s, &info));
  CHECK(info.address == (uint64_t)(uintptr_t)address && info.bytes == sizeof memory && info.domain == SKEEP_DOMAIN_HEAP);
  CHECK_OK(skeep_storage_close(s, NULL));
  CHECK(released == 1);
  CHECK_FAILS(skeep_storage_close(s, NULL), SKEEP_ERR_CLOSED);
  CHECK(released == 1);

  /* Closed while pinned: released by the last unpin. */
  CHECK_OK(skeep_storage_borrow(memory, sizeof memory, SKEEP_DOMAIN_OFFHEAP, 0, count_release, &released, &s));
  CHECK_OK(skeep_pin(s, &pin));
  CHECK_OK(skeep_pin(s, &second));
  CHECK_FAILS(skeep_storage_left(s, &left), SKEEP_ERR_ARGUMENT); /* open */
  CHECK_OK(skeep_storage_close(s, NULL));
  CHECK_OK(skeep_storage_left(s, &left));
  CHECK(left == 2 && released == 1);
  CHECK_OK(skeep_unpin(pin));
  CHECK_OK(skeep_storage_left(s, &left));
  CHECK(left == 1 && released == 1);
  CHECK_FAILS(skeep_unpin(pin), SKEEP_ERR_CLOSED); /* that does not give back the other pin */
  CHECK(released == 1);
  CHECK_OK(skeep_unpin(second));
  CHECK(released == 2);
  CHECK_FAILS(skeep_storage_left(s, &left), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_unpin(second), SKEEP_ERR_CLOSED);
  CHECK(released == 2);

  /* Read-only memory is no output. */
  const skeep_view *in;
  skeep_pool *pool;
  NEED(skeep_pool_create(1, 0, &pool).code == SKEEP_OK);
  CHECK_OK(skeep_storage_borrow(memory, sizeof memory, SKEEP_DOMAIN_HEAP, 1, NULL, NULL, &s));
  CHECK_OK(skeep_view_of(s, 0, SKEEP_F32, 1, four, &v));
  in = &v;
  CHECK_FAILS_ON(skeep_add(pool, NULL, in, in, in), SKEEP_ERR_READONLY, 2);
  CHECK_OK(skeep_storage_close(s, NULL));
  skeep_pool_destroy(pool);

  CHECK_FAILS(skeep_storage_borrow(NULL, 4, SKEEP_DOMAIN_HEAP, 0, NULL, NULL, &s), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_storage_borrow(memory, 0, SKEEP_DOMAIN_HEAP, 0, NULL, NULL, &s), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_storage_borrow(memory, 4, SKEEP_DOMAIN_MAPPED, 0, NULL, NULL, &s), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_storage_borrow(memory, 4, SKEEP_DOMAIN_DEVICE, 0, NULL, NULL, &s), SKEEP_ERR_NO_KERNEL);
}

static void test_views(void) {
  skeep_storage s;
  skeep_view v, w;
  double value;
  static const int64_t matrix[] = {3, 4}, zero[] = {0, 4}, odd[] = {2, 33};
  static const int64_t index[] = {2, 1}, outside[] = {2, 4};
  NEED(skeep_storage_allocate(4096, 0, &s).code == SKEEP_OK);
  if (CHECK_OK(skeep_view_of(s, 3, SKEEP_F32, 2, matrix, &v))) { /* any byte address */
    for (int i = 0; i < 12; i++) memcpy(check_bytes(&v) + 4 * i, &(float){(float)i}, 4);
    CHECK_OK(skeep_get(&v, index, &value));
    CHECK(value == 9);
    CHECK_FAILS(skeep_get(&v, outside, &value), SKEEP_ERR_INDEX);
    w = v; /* transposed by its layout alone */
    w.layout.shape[0] = 4, w.layout.shape[1] = 3, w.layout.stride[0] = 1, w.layout.stride[1] = 4;
    CHECK_OK(skeep_get(&w, (const int64_t[]){1, 2}, &value));
    CHECK(value == 9);
    w.layout.stride[1] = 5; /* one element past its bytes */
    CHECK_FAILS_ON(skeep_view_check(&w), SKEEP_ERR_BOUNDS, 0);
    w = v, w.reserved[1] = 1;
    CHECK_FAILS_ON(skeep_view_check(&w), SKEEP_ERR_ARGUMENT, 0);
    w = v, w.bytes += 8192;
    CHECK_FAILS_ON(skeep_view_check(&w), SKEEP_ERR_BOUNDS, 0);
    w = v, w.encoding = 999;
    CHECK_FAILS_ON(skeep_view_check(&w), SKEEP_ERR_FORMAT, 0);
    w = v, w.encoding = SKEEP_F16; /* known, and so is the dtype: they do not go together */
    if (CHECK_FAILS_ON(skeep_view_check(&w), SKEEP_ERR_ARGUMENT, 0))
      CHECK(skeep_view_check(&w).detail == offsetof(skeep_view, dtype));
    w = v, w.cell += 16;
    CHECK_FAILS_ON(skeep_view_check(&w), SKEEP_ERR_ARGUMENT, 0);
    w = v, w.generation++;
    CHECK_FAILS_ON(skeep_view_check(&w), SKEEP_ERR_CLOSED, 0);
  }
  CHECK_FAILS(skeep_view_of(s, 0, SKEEP_F32, 2, zero, &v), SKEEP_ERR_SHAPE);
  CHECK_FAILS(skeep_view_of(s, 0, SKEEP_ENC_Q4_0, 2, odd, &v), SKEEP_ERR_SHAPE);
  CHECK_FAILS(skeep_view_of(s, 4080, SKEEP_F32, 2, matrix, &v), SKEEP_ERR_BOUNDS);
  CHECK_FAILS(skeep_view_of(s, UINT64_MAX, SKEEP_F32, 2, matrix, &v), SKEEP_ERR_BOUNDS);
  CHECK_FAILS(skeep_view_of(s, 0, 999, 2, matrix, &v), SKEEP_ERR_FORMAT);
  CHECK_OK(skeep_storage_close(s, NULL));
}

static void test_map(void) {
  char content[9000];
  for (size_t i = 0; i < sizeof content; i++) content[i] = (char)(i * 7);
  const int fd = check_file(content, sizeof content), again = dup(fd);
  NEED(again >= 0);
  skeep_storage s;
  skeep_storage_info info;
  uint64_t resident = 0;
  CHECK_FAILS(skeep_storage_map(fd, 0, sizeof content + 1, &s), SKEEP_ERR_BOUNDS);
  CHECK_FAILS(skeep_storage_map(fd, UINT64_MAX, 2, &s), SKEEP_ERR_BOUNDS);
  CHECK_FAILS(skeep_storage_map(-1, 0, 4, &s), SKEEP_ERR_IO);
  if (CHECK_OK(skeep_storage_map(fd, 4099, 4000, &s))) {
    CHECK(close(fd) == 0); /* the storage has its own */
    CHECK_OK(skeep_storage_info_of(s, &info));
    CHECK(info.bytes == 4000 && info.readonly && info.domain == SKEEP_DOMAIN_MAPPED);
    CHECK(!memcmp((const void *)(uintptr_t)info.address, content + 4099, 4000));
    CHECK_OK(skeep_storage_verify(s));
    CHECK_OK(skeep_storage_advise(s, 1, 3999, SKEEP_ADVICE_WILLNEED));
    CHECK_FAILS(skeep_storage_advise(s, 1, 4000, SKEEP_ADVICE_WILLNEED), SKEEP_ERR_BOUNDS);
    CHECK(skeep_storage_advise(s, 1, 4000, SKEEP_ADVICE_WILLNEED).detail == 4001);
    CHECK(skeep_storage_advise(s, 2, UINT64_MAX, SKEEP_ADVICE_WILLNEED).detail == UINT64_MAX);
    CHECK_FAILS(skeep_storage_advise(s, 0, 1, 77), SKEEP_ERR_ARGUMENT);
    CHECK_OK(skeep_storage_resident(s, &resident));
    CHECK(resident == 4000); /* it was read just now */
    NEED(ftruncate(again, 8999) == 0);
    CHECK_FAILS(skeep_storage_verify(s), SKEEP_ERR_CHANGED);
    CHECK_OK(skeep_storage_close(s, NULL));
    CHECK_FAILS(skeep_storage_verify(s), SKEEP_ERR_CLOSED);
    CHECK_FAILS(skeep_storage_resident(s, &resident), SKEEP_ERR_CLOSED);
  }
  NEED(close(again) == 0);
}

static void test_marks(void) {
  skeep_storage root, outer, inner, third;
  skeep_view at_root, at_outer, at_inner, at_third;
  NEED(skeep_storage_allocate(4096, 0, &root).code == SKEEP_OK);
  CHECK_OK(skeep_mark_open(root, &outer));
  CHECK_OK(skeep_mark_open(root, &inner));
  CHECK_OK(skeep_view_of(root, 0, SKEEP_F32, 1, four, &at_root));
  CHECK_OK(skeep_view_of(outer, 64, SKEEP_F32, 1, four, &at_outer));
  CHECK_OK(skeep_view_of(inner, 128, SKEEP_F32, 1, four, &at_inner));
  CHECK_OK(skeep_mark_release(inner, NULL));
  CHECK_FAILS_ON(skeep_view_check(&at_inner), SKEEP_ERR_CLOSED, 0);
  CHECK_OK(skeep_view_check(&at_outer));
  CHECK_FAILS(skeep_mark_release(inner, NULL), SKEEP_ERR_CLOSED);
  /* Renewing ends the views and the marks inside, and keeps the mark. */
  CHECK_OK(skeep_mark_open(root, &third));
  CHECK_OK(skeep_view_of(third, 192, SKEEP_F32, 1, four, &at_third));
  skeep_storage renewed = outer;
  CHECK_OK(skeep_mark_renew(&renewed, NULL));
  CHECK(renewed.cell == outer.cell && renewed.generation > outer.generation);
  CHECK_FAILS_ON(skeep_view_check(&at_outer), SKEEP_ERR_CLOSED, 0);
  CHECK_FAILS_ON(skeep_view_check(&at_third), SKEEP_ERR_CLOSED, 0);
  CHECK_OK(skeep_view_of(renewed, 64, SKEEP_F32, 1, four, &at_outer));
  CHECK_OK(skeep_view_check(&at_outer));
  /* Releasing an outer mark ends those inside; a reset ends all, but no view of the root. */
  CHECK_OK(skeep_mark_open(root, &third));
  CHECK_OK(skeep_view_of(third, 192, SKEEP_F32, 1, four, &at_third));
  CHECK_OK(skeep_storage_reset(root, NULL));
  CHECK_FAILS_ON(skeep_view_check(&at_outer), SKEEP_ERR_CLOSED, 0);
  CHECK_FAILS_ON(skeep_view_check(&at_third), SKEEP_ERR_CLOSED, 0);
  CHECK_OK(skeep_view_check(&at_root));
  /* A mark is no root. */
  CHECK_OK(skeep_mark_open(root, &outer));
  CHECK_FAILS(skeep_storage_close(outer, NULL), SKEEP_ERR_ARGUMENT);
  CHECK_OK(skeep_view_of(outer, 64, SKEEP_F32, 1, four, &at_outer));
  CHECK_OK(skeep_storage_close(root, NULL));
  CHECK_FAILS_ON(skeep_view_check(&at_outer), SKEEP_ERR_CLOSED, 0);
  CHECK_FAILS_ON(skeep_view_check(&at_root), SKEEP_ERR_CLOSED, 0);
  CHECK_FAILS(skeep_mark_open(root, &outer), SKEEP_ERR_CLOSED);
}

/* A pin outlives the close: the bytes stay, and the unpin is accepted. */
static void test_pins(void) {
  skeep_storage s, pin, second;
  skeep_storage_info info;
  uint64_t left = 0;
  skeep_view v = check_new(SKEEP_F32, 1, four, &s);
  check_floats(&v)[0] = 42;
  CHECK_OK(skeep_pin(s, &pin));
  CHECK_FAILS(skeep_storage_try_close(s, NULL), SKEEP_ERR_BUSY);
  CHECK_OK(skeep_view_check(&v)); /* busy changed nothing */
  CHECK_OK(skeep_storage_close(s, NULL));
  CHECK_FAILS_ON(skeep_view_check(&v), SKEEP_ERR_CLOSED, 0);
  CHECK(check_floats(&v)[0] == 42);
  CHECK_FAILS(skeep_pin(s, &second), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_storage_info_of(s, &info), SKEEP_ERR_CLOSED);
  CHECK_OK(skeep_storage_left(s, &left));
  CHECK(left == 1);
  CHECK_OK(skeep_unpin(pin));
  CHECK_FAILS(skeep_storage_left(s, &left), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_unpin(pin), SKEEP_ERR_CLOSED);
}

/* skeep_unpin refuses what is not a pin; neither other pins nor the next storage in the slot are affected. */
static void test_unpin_of_others(void) {
  static float memory[4];
  uint64_t released = 0;
  skeep_storage s, mark, pin, again;
  skeep_storage_info info;
  skeep_view v;
  skeep_pool *pool;
  skeep_step *step;
  NEED(skeep_pool_create(1, 0, &pool).code == SKEEP_OK && skeep_step_create(0, 0, &step).code == SKEEP_OK);
  CHECK_OK(skeep_storage_borrow(memory, sizeof memory, SKEEP_DOMAIN_HEAP, 0, count_release, &released, &s));
  CHECK_OK(skeep_mark_open(s, &mark));
  CHECK_OK(skeep_view_of(mark, 0, SKEEP_F32, 1, four, &v));
  for (int pinned = 0; pinned < 3; pinned++) { /* by nobody, by a pin, by a step too */
    if (pinned == 1) CHECK_OK(skeep_pin(mark, &pin));
    if (pinned == 2) {
      CHECK_OK(skeep_step_begin(step));
      CHECK_OK(skeep_softmax(pool, step, &v, 1, &v));
    }
    CHECK_FAILS(skeep_unpin(s), SKEEP_ERR_ARGUMENT);
    CHECK_FAILS(skeep_unpin(mark), SKEEP_ERR_ARGUMENT);
    for (uint64_t g = 0; g < 4; g++) { /* guesses */
      const skeep_storage root = {s.cell, s.generation - 2 + g}, other = {mark.cell, mark.generation - 2 + g};
      CHECK(skeep_unpin(root).code != SKEEP_OK && skeep_unpin(other).code != SKEEP_OK);
    }
    CHECK_OK(skeep_storage_info_of(s, &info));
    CHECK(info.pins == (uint64_t)pinned);
    CHECK_OK(skeep_storage_info_of(mark, &info));
    CHECK(info.pins == (uint64_t)pinned);
  }
  /* And a pin is no storage. */
  CHECK_FAILS(skeep_storage_info_of(pin, &info), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_storage_close(pin, NULL), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_mark_release(pin, NULL), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_pin(pin, &again), SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_storage_left(pin, &released), SKEEP_ERR_ARGUMENT);
  v.cell = pin.cell, v.generation = pin.generation;
  CHECK_FAILS_ON(skeep_view_check(&v), SKEEP_ERR_CLOSED, 0);
  CHECK_OK(skeep_step_end(step));
  CHECK_OK(skeep_unpin(pin));
  CHECK_OK(skeep_storage_close(s, NULL));
  CHECK(released == 1);
  CHECK_FAILS(skeep_unpin(s), SKEEP_ERR_ARGUMENT);
  /* The slots serve others: old handles take nothing from them. */
  for (int i = 0; i < 4; i++) {
    CHECK_OK(skeep_storage_borrow(memory, sizeof memory, SKEEP_DOMAIN_HEAP, 0, count_release, &released, &s));
    CHECK_OK(skeep_pin(s, &again));
    CHECK_FAILS(skeep_unpin(pin), SKEEP_ERR_CLOSED);
    CHECK_OK(skeep_storage_close(s, NULL));
    CHECK(released == 1u + (uint64_t)i);
    CHECK_OK(skeep_unpin(again));
    CHECK(released == 2u + (uint64_t)i);
  }
  skeep_step_destroy(step);
  skeep_pool_destroy(pool);
}

static void test_step(void) {
  skeep_pool *pool;
  skeep_step *step;
  skeep_storage sa, sb, sc;
  skeep_storage_info info;
  uint64_t op = 99;
  NEED(skeep_pool_create(2, 0, &pool).code == SKEEP_OK);
  CHECK(skeep_pool_threads(pool) == 2);
  NEED(skeep_step_create(4, 2, &step).code == SKEEP_OK);
  skeep_view a = check_new(SKEEP_F32, 1, four, &sa), b = check_new(SKEEP_F32, 1, four, &sb);
  skeep_view c = check_new(SKEEP_F32, 1, four, &sc);
  for (int i = 0; i < 4; i++) check_floats(&a)[i] = (float)i;
  CHECK_FAILS(skeep_add(pool, step, &a, &a, &b), SKEEP_ERR_ARGUMENT); /* not begun */
  CHECK_OK(skeep_step_begin(step));
  CHECK_FAILS(skeep_step_begin(step), SKEEP_ERR_ARGUMENT);
  skeep_view *frame = skeep_step_frame(step);
  frame[0] = a, frame[1] = b;
  CHECK_OK(skeep_add(pool, step, &frame[0], &frame[0], &frame[1]));
  CHECK_OK(skeep_add(pool, step, &frame[1], &frame[0], &frame[1]));
  CHECK(check_floats(&b)[3] == 9);
  CHECK_OK(skeep_storage_info_of(sa, &info));
  CHECK(info.pins == 1); /* once a step, not once a call */
  CHECK_FAILS(skeep_storage_try_close(sa, NULL), SKEEP_ERR_BUSY);
  CHECK_FAILS(skeep_add(pool, step, &a, &a, &c), SKEEP_ERR_MEMORY); /* the step was made for two roots */
  CHECK_FAILS(skeep_add(pool, step, &a, &a, &b), SKEEP_ERR_MEMORY); /* keeps its first error, does nothing */
  CHECK(check_floats(&b)[3] == 9);
  CHECK_FAILS(skeep_step_status(step, &op), SKEEP_ERR_MEMORY);
  CHECK(op == 2);
  CHECK_FAILS(skeep_step_end(step), SKEEP_ERR_MEMORY);
  CHECK_OK(skeep_storage_info_of(sa, &info));
  CHECK(info.pins == 0);
  /* A close within the step, which is passed: the step gives its own pin back there. */
  CHECK_OK(skeep_step_begin(step));
  CHECK_OK(skeep_add(pool, step, &a, &a, &b));
  CHECK_OK(skeep_storage_close(sa, step));
  CHECK_FAILS_ON(skeep_add(pool, step, &b, &a, &b), SKEEP_ERR_CLOSED, 1);
  CHECK_FAILS(skeep_step_end(step), SKEEP_ERR_CLOSED);
  CHECK_OK(skeep_storage_close(sb, NULL));
  CHECK_OK(skeep_storage_close(sc, NULL));
  skeep_step_destroy(step);
  skeep_step_destroy(NULL);
  skeep_pool_destroy(pool);
  skeep_pool_destroy(NULL);
}

int main(void) {
  test_allocate();
  test_borrow();
  test_views();
  test_map();
  test_marks();
  test_pins();
  test_unpin_of_others();
  test_step();
  return check_result();
}
