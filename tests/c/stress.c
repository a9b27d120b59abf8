/* Everything at once: threads compute products while other threads close and replace the weights, marks are released
 * while their bytes are read, and pools are created and destroyed. A product is right or refused, never wrong, and all
 * borrowed bytes are released once. Meant for SKEEP_SANITIZE=thread and address, but useful without. The argument is
 * the duration in milliseconds. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define ROWS 120
#define N 64
#define PLACES 6 /* of the board: the last two are marks of one storage, the others are storages */
#define MARKED 2

static const int64_t x_shape[] = {1, N}, w_shape[] = {ROWS, N}, y_shape[] = {1, ROWS};

/* A weight whose elements are all `value`, visible to all threads. */
struct entry {
  skeep_storage storage;
  skeep_view view;
  float value;
};
static struct entry board[PLACES];
static pthread_mutex_t board_lock[PLACES];
static skeep_pool *shared_pool;
static uint32_t stop, last_value;
static uint64_t lent, returned, multiplied, refused, replaced, renewed, pinned, pools;

static struct entry look(uint32_t place) {
  pthread_mutex_lock(&board_lock[place]);
  const struct entry e = board[place];
  pthread_mutex_unlock(&board_lock[place]);
  return e;
}
static struct entry publish(uint32_t place, struct entry e) {
  pthread_mutex_lock(&board_lock[place]);
  const struct entry old = board[place];
  board[place] = e;
  pthread_mutex_unlock(&board_lock[place]);
  return old;
}
static int running(void) { return !__atomic_load_n(&stop, __ATOMIC_RELAXED); }
static void count(uint64_t *n) { __atomic_add_fetch(n, 1, __ATOMIC_RELAXED); }
static float new_value(void) { return (float)(1 + __atomic_add_fetch(&last_value, 1, __ATOMIC_RELAXED) % 1000); }

static void fill(float *p, float value) {
  for (int i = 0; i < ROWS * N; i++) p[i] = value;
}

/* ---- storages that come and go ---- */

static void give_back(void *memory) {
  memset(memory, 0xff, sizeof(float) * ROWS * N); /* NaN: a product that reads it too late is wrong */
  free(memory);
  count(&returned);
}

static struct entry new_entry(uint32_t kind) {
  struct entry e = {.value = new_value()};
  if (kind == 0) {
    e.view = check_new(SKEEP_F32, 2, w_shape, &e.storage);
    fill(check_floats(&e.view), e.value);
    return e;
  }
  float *memory = malloc(sizeof(float) * ROWS * N);
  NEED(memory);
  fill(memory, e.value);
  if (kind == 1) {
    count(&lent);
    NEED(skeep_storage_borrow(memory, sizeof(float) * ROWS * N, SKEEP_DOMAIN_OFFHEAP, 1, give_back, memory, &e.storage)
             .code == SKEEP_OK);
  } else {
    const size_t bytes = sizeof(float) * ROWS * N;
    const int fd = check_file(memory, bytes);
    NEED(skeep_storage_map(fd, 0, bytes, &e.storage).code == SKEEP_OK);
    close(fd);
    free(memory);
  }
  NEED(skeep_view_of(e.storage, 0, SKEEP_F32, 2, w_shape, &e.view).code == SKEEP_OK);
  return e;
}

/* Closes in one of three ways, the last of which waits until the bytes are gone. */
static void end_entry(struct entry e, uint32_t way) {
  uint64_t left;
  skeep_status st = {SKEEP_ERR_BUSY, -1, 0};
  if (way == 0)
    for (int i = 0; i < 50 && st.code == SKEEP_ERR_BUSY; i++) {
      st = skeep_storage_try_close(e.storage, NULL);
      if (st.code == SKEEP_ERR_BUSY) sched_yield();
    }
  if (st.code == SKEEP_ERR_BUSY) st = skeep_storage_close(e.storage, NULL);
  CHECK_OK(st);
  while (way == 2 && (st = skeep_storage_left(e.storage, &left)).code == SKEEP_OK) sched_yield();
  if (way == 2) CHECK_FAILS(st, SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_storage_close(e.storage, NULL), SKEEP_ERR_CLOSED);
}

static void *replace(void *arg) {
  uint64_t random = 11 + *(uint32_t *)arg;
  while (running()) {
    const uint32_t r = check_random(&random);
    end_entry(publish(r % (PLACES - MARKED), new_entry(r / 16 % 3)), r / 64 % 3);
    count(&replaced);
  }
  return NULL;
}

/* ---- a slab whose marks are released ---- */

static skeep_storage slab;

static struct entry marked_entry(skeep_storage mark, uint32_t part) {
  struct entry e = {.storage = mark, .value = new_value()};
  NEED(skeep_view_of(mark, part * sizeof(float) * ROWS * N, SKEEP_F32, 2, w_shape, &e.view).code == SKEEP_OK);
  /* No thread reads this part through an earlier mark any more: the release waited. */
  fill(check_floats(&e.view), e.value);
  return e;
}

static void *mark(void *arg) {
  uint64_t random = 5;
  skeep_storage outer, inner;
  (void)arg;
  NEED(skeep_mark_open(slab, &outer).code == SKEEP_OK);
  while (running()) {
    NEED(skeep_mark_open(slab, &inner).code == SKEEP_OK);
    (void)publish(PLACES - 2, marked_entry(outer, 0));
    (void)publish(PLACES - 1, marked_entry(inner, 1));
    sched_yield();
    switch (check_random(&random) % 3) {
    case 0: CHECK_OK(skeep_mark_renew(&outer, NULL)); break;
    case 1:
      CHECK_OK(skeep_mark_release(outer, NULL));
      NEED(skeep_mark_open(slab, &outer).code == SKEEP_OK);
      break;
    default:
      CHECK_OK(skeep_storage_reset(slab, NULL));
      NEED(skeep_mark_open(slab, &outer).code == SKEEP_OK);
    }
    CHECK_FAILS(skeep_mark_release(inner, NULL), SKEEP_ERR_CLOSED);
    count(&renewed);
  }
  CHECK_OK(skeep_mark_release(outer, NULL));
  return NULL;
}

/* ---- who uses them ---- */

static void check_product(skeep_status st, const skeep_view *y, float value) {
  if (st.code != SKEEP_OK) {
    CHECK_FAILS_ON(st, SKEEP_ERR_CLOSED, 1);
    count(&refused);
    return;
  }
  int good = 1;
  for (int o = 0; o < ROWS; o++) good &= check_floats(y)[o] == value * N;
  CHECK(good);
  count(&multiplied);
}

static void multiply_once(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view y[2],
                          uint64_t *random) {
  const struct entry a = look(check_random(random) % PLACES), b = look(check_random(random) % PLACES);
  memset(check_bytes(&y[0]), 0, y[0].bytes);
  memset(check_bytes(&y[1]), 0, y[1].bytes);
  if (!step) {
    check_product(skeep_matmul_t(pool, NULL, x, &a.view, &y[0]), &y[0], a.value);
    return;
  }
  CHECK_OK(skeep_step_begin(step));
  const skeep_status first = skeep_matmul_t(pool, step, x, &a.view, &y[0]);
  const skeep_status second = skeep_matmul_t(pool, step, x, &b.view, &y[1]);
  check_product(first, &y[0], a.value);
  if (first.code == SKEEP_OK)
    check_product(second, &y[1], b.value);
  else
    CHECK_FAILS_ON(second, SKEEP_ERR_CLOSED, 1); /* of the first */
  CHECK_FAILS(skeep_step_end(step), second.code);
}

struct user {
  skeep_storage storage[3];
  skeep_view x, y[2];
};
static void user_make(struct user *u) {
  u->x = check_new(SKEEP_F32, 2, x_shape, &u->storage[0]);
  u->y[0] = check_new(SKEEP_F32, 2, y_shape, &u->storage[1]);
  u->y[1] = check_new(SKEEP_F32, 2, y_shape, &u->storage[2]);
  for (int i = 0; i < N; i++) check_floats(&u->x)[i] = 1;
}
static void user_end(struct user *u) {
  for (int i = 0; i < 3; i++) CHECK_OK(skeep_storage_close(u->storage[i], NULL));
}

static void *multiply(void *arg) {
  const uint32_t number = *(uint32_t *)arg;
  uint64_t random = 99 + number;
  skeep_step *step = NULL;
  struct user u;
  user_make(&u);
  if (number % 2) NEED(skeep_step_create(0, 0, &step).code == SKEEP_OK);
  while (running()) multiply_once(shared_pool, step, &u.x, u.y, &random);
  skeep_step_destroy(step);
  user_end(&u);
  return NULL;
}

/* Pools that live for a few products. */
static void *open_pools(void *arg) {
  uint64_t random = 42;
  struct user u;
  (void)arg;
  user_make(&u);
  while (running()) {
    skeep_pool *pool;
    NEED(skeep_pool_create(1 + check_random(&random) % 4, 0, &pool).code == SKEEP_OK);
    for (uint32_t i = check_random(&random) % 4; i; i--) multiply_once(pool, NULL, &u.x, u.y, &random);
    skeep_pool_destroy(pool);
    count(&pools);
  }
  user_end(&u);
  return NULL;
}

/* Reads the bytes directly while it holds a pin, and calls functions that query the storage. */
static void *pin_and_read(void *arg) {
  uint64_t random = 17;
  (void)arg;
  while (running()) {
    skeep_storage pin;
    skeep_storage_info info;
    double value;
    const struct entry e = look(check_random(&random) % PLACES);
    const skeep_status got = skeep_get(&e.view, (const int64_t[]){ROWS - 1, N - 1}, &value);
    if (got.code == SKEEP_OK)
      CHECK(value == (double)e.value);
    else
      CHECK_FAILS(got, SKEEP_ERR_CLOSED);
    const skeep_status asked = skeep_storage_info_of(e.storage, &info);
    if (asked.code == SKEEP_OK)
      CHECK(info.bytes >= sizeof(float) * ROWS * N);
    else
      CHECK_FAILS(asked, SKEEP_ERR_CLOSED);
    const skeep_status st = skeep_pin(e.storage, &pin);
    if (st.code != SKEEP_OK) {
      CHECK_FAILS(st, SKEEP_ERR_CLOSED);
      continue;
    }
    const float *p = check_floats(&e.view);
    int good = 1;
    for (int i = 0; i < ROWS * N; i++) good &= p[i] == e.value;
    CHECK(good);
    CHECK_OK(skeep_unpin(pin));
    count(&pinned);
  }
  return NULL;
}

/* ---- the moment between "it is live" and "it is pinned" ---- */

#define CELLS 64
static struct cell {
  uint32_t value; /* 0 = not in use */
  uint32_t used;
} cells[CELLS];
static uint64_t peeked, cells_lent;

/* The current storage, protected by a sequence lock (odd = being written), so that readers spend their time in skeep
 * and not in a mutex. */
static uint64_t day_sequence, day_cell, day_generation, day_address, day_value;

static void day_set(skeep_storage s, const struct cell *c) {
  __atomic_add_fetch(&day_sequence, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&day_cell, s.cell, __ATOMIC_SEQ_CST);
  __atomic_store_n(&day_generation, s.generation, __ATOMIC_SEQ_CST);
  __atomic_store_n(&day_address, (uint64_t)(uintptr_t)&c->value, __ATOMIC_SEQ_CST);
  __atomic_store_n(&day_value, c->value, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&day_sequence, 1, __ATOMIC_SEQ_CST);
}

static int day_get(skeep_storage *s, uint64_t *address, uint64_t *value) {
  const uint64_t begin = __atomic_load_n(&day_sequence, __ATOMIC_SEQ_CST);
  s->cell = __atomic_load_n(&day_cell, __ATOMIC_SEQ_CST);
  s->generation = __atomic_load_n(&day_generation, __ATOMIC_SEQ_CST);
  *address = __atomic_load_n(&day_address, __ATOMIC_SEQ_CST);
  *value = __atomic_load_n(&day_value, __ATOMIC_SEQ_CST);
  return begin && !(begin % 2) && begin == __atomic_load_n(&day_sequence, __ATOMIC_SEQ_CST);
}

static void take_cell_back(void *arg) {
  struct cell *c = arg;
  c->value = 0;
  __atomic_store_n(&c->used, 0, __ATOMIC_RELEASE);
}

/* Replaces a storage of four bytes as fast as it can. Its close finds pins now and then. */
static void *lend(void *arg) {
  skeep_storage now, old = {0, 0};
  (void)arg;
  for (uint32_t i = 0; running(); i++) {
    struct cell *c = &cells[i % CELLS];
    if (__atomic_exchange_n(&c->used, 1, __ATOMIC_ACQUIRE)) continue; /* closed, and still pinned */
    c->value = i + 1;
    NEED(skeep_storage_borrow(&c->value, 4, SKEEP_DOMAIN_HEAP, 0, take_cell_back, c, &now).code == SKEEP_OK);
    day_set(now, c);
    if (old.cell) CHECK_OK(skeep_storage_close(old, NULL));
    old = now;
    count(&cells_lent);
  }
  CHECK_OK(skeep_storage_close(old, NULL));
  return NULL;
}

static void *peek(void *arg) {
  skeep_storage s, pin;
  uint64_t address, value, right = 0, wrong = 0, odd = 0;
  (void)arg;
  while (running()) { /* checks are counted afterwards: the counters are shared */
    if (!day_get(&s, &address, &value)) continue;
    const skeep_status st = skeep_pin(s, &pin);
    if (st.code == SKEEP_OK) {
      *(*(const uint32_t *)(uintptr_t)address == value ? &right : &wrong) += 1;
      odd += skeep_unpin(pin).code != SKEEP_OK;
    } else {
      odd += st.code != SKEEP_ERR_CLOSED;
    }
  }
  CHECK(wrong == 0 && odd == 0);
  __atomic_add_fetch(&peeked, right, __ATOMIC_RELAXED);
  return NULL;
}

static void run_for(long ms, void *(*const *roles)(void *), uint32_t threads) {
  enum { MOST_THREADS = 16 };
  pthread_t thread[MOST_THREADS];
  uint32_t number[MOST_THREADS];
  __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < threads; i++) {
    number[i] = i;
    NEED(pthread_create(&thread[i], NULL, roles[i], &number[i]) == 0);
  }
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}
#define RUN_FOR(ms, ...)                                                \
  do {                                                                  \
    static void *(*const roles[])(void *) = {__VA_ARGS__};              \
    run_for((ms), roles, (uint32_t)(sizeof roles / sizeof roles[0])); \
  } while (0)

int main(int argc, char **argv) {
  const long ms = argc > 1 ? strtol(argv[1], NULL, 10) : 3000;
  skeep_counters before, after;
  skeep_storage outer, inner;
  skeep_counters_read(&before);
  for (uint32_t i = 0; i < PLACES; i++) pthread_mutex_init(&board_lock[i], NULL);
  RUN_FOR(ms / 3, lend, peek, peek, peek);
  for (int i = 0; i < CELLS; i++) CHECK(!cells[i].used);

  NEED(skeep_pool_create(3, 0, &shared_pool).code == SKEEP_OK);
  NEED(skeep_storage_allocate(MARKED * sizeof(float) * ROWS * N, 0, &slab).code == SKEEP_OK);
  for (uint32_t i = 0; i < PLACES - MARKED; i++) (void)publish(i, new_entry(i % 3));
  NEED(skeep_mark_open(slab, &outer).code == SKEEP_OK && skeep_mark_open(slab, &inner).code == SKEEP_OK);
  (void)publish(PLACES - 2, marked_entry(outer, 0));
  (void)publish(PLACES - 1, marked_entry(inner, 1));
  CHECK_OK(skeep_storage_reset(slab, NULL)); /* stale from the beginning */
  RUN_FOR(ms - ms / 3, multiply, multiply, multiply, replace, replace, mark, open_pools, pin_and_read);

  for (uint32_t i = 0; i < PLACES - MARKED; i++) end_entry(look(i), i % 3);
  CHECK_OK(skeep_storage_close(slab, NULL));
  skeep_pool_destroy(shared_pool);
  skeep_counters_read(&after);
  CHECK(after.storages == before.storages && after.offheap_bytes == before.offheap_bytes &&
        after.mapped_bytes == before.mapped_bytes && after.heap_bytes == before.heap_bytes);
  CHECK(lent > 0 && lent == returned);
  CHECK(multiplied > 0 && refused > 0 && replaced > 0 && renewed > 0 && pinned > 0 && pools > 0);
  CHECK(peeked > 0 && cells_lent > 0);
  printf("%" PRIu64 " products, %" PRIu64 " refused, %" PRIu64 " storages replaced (%" PRIu64 " lent), %" PRIu64
         " marks ended, %" PRIu64 " pins, %" PRIu64 " pools; %" PRIu64 " cells lent, %" PRIu64 " peeks\n",
         multiplied, refused, replaced, lent, renewed, pinned, pools, cells_lent, peeked);
  return check_result();
}
