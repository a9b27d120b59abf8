/* skeep_pool_destroy waits for the end of an operation with several regions, not only for the end of a region. */
#include "check.h"

#include <pthread.h>
#include <sched.h>

/* Three KV heads, each with partial results that fill the buffer of the pool: three regions, one after the other. */
enum { HEADS = 3, CAPACITY = 600, K_DIM = 8, V_DIM = 4096, THREADS = 4 };

static skeep_view q, k, v, positions, y;
static skeep_pool *pool;
static uint32_t done; /* operations */

static void *attend(void *arg) {
  const skeep_attend_params p = {.scale = 1};
  CHECK_OK(skeep_attend(pool, arg, &q, &k, &v, &positions, NULL, p, &y));
  __atomic_add_fetch(&done, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* Whether the operation has begun and goes on. */
static int runs(skeep_storage operand) {
  skeep_storage_info info;
  CHECK_OK(skeep_storage_info_of(operand, &info));
  return info.pins > 0;
}

int main(void) {
  static const int64_t q_shape[] = {1, HEADS, K_DIM}, k_shape[] = {1, HEADS, CAPACITY, K_DIM};
  static const int64_t v_shape[] = {1, HEADS, CAPACITY, V_DIM}, y_shape[] = {1, HEADS, V_DIM}, one[] = {1};
  skeep_storage s[5];
  pthread_t thread;
  uint64_t state = 7;
  int beside = 0;
  q = check_new(SKEEP_F32, 3, q_shape, &s[0]);
  k = check_new(SKEEP_F32, 4, k_shape, &s[1]);
  v = check_new(SKEEP_F32, 4, v_shape, &s[2]);
  positions = check_new(SKEEP_I32, 1, one, &s[3]);
  y = check_new(SKEEP_F32, 3, y_shape, &s[4]);
  for (size_t i = 0; i < v.bytes / sizeof(float); i++) check_floats(&v)[i] = check_float(&state);
  for (size_t i = 0; i < k.bytes / sizeof(float); i++) check_floats(&k)[i] = check_float(&state);
  *(int32_t *)(void *)check_bytes(&positions) = CAPACITY - 1;
  float *want = malloc(y.bytes);
  NEED(want != NULL && skeep_pool_create(THREADS, 4 << 20, &pool).code == SKEEP_OK);
  attend(NULL);
  memcpy(want, check_floats(&y), y.bytes);
  skeep_pool_destroy(pool);
  /* Whether the operation still goes on when the destruction begins is the system's choice: more rounds find one. */
  for (int round = 0; round < 60 || (!beside && round < 3000); round++) {
    NEED(skeep_pool_create(THREADS, 4 << 20, &pool).code == SKEEP_OK);
    memset(check_bytes(&y), 0, y.bytes);
    const uint32_t before = __atomic_load_n(&done, __ATOMIC_ACQUIRE);
    NEED(!pthread_create(&thread, NULL, attend, NULL));
    while (!runs(s[4]) && __atomic_load_n(&done, __ATOMIC_ACQUIRE) == before) sched_yield();
    for (int wait = 0; wait < round % 20 && runs(s[4]); wait++) sched_yield(); /* some way into it */
    beside += runs(s[4]);
    skeep_pool_destroy(pool);
    NEED(!pthread_join(thread, NULL));
    CHECK(!memcmp(want, check_floats(&y), y.bytes));
  }
  CHECK(beside > 0);
  free(want);
  for (int i = 0; i < 5; i++) CHECK_OK(skeep_storage_close(s[i], NULL));
  return check_result();
}
