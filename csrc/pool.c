/* The pool: persistent worker threads that share the tasks of a region (one parallel run) with its caller.
 *
 * A region is open while `gate` does not have the flag CLOSED. A worker enters by adding 1 to the gate; if it then
 * finds the gate closed, it leaves at once. When no task is left, the caller closes the gate and waits until no worker
 * is inside. A worker that the system has not woken yet costs nothing: it will find the gate closed. The fields of a
 * region are written only while the gate is closed and no worker is inside, except workers that are about to leave. */
#include "internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLOSED (1u << 31)
#define MAX_THREADS 1024u
#define DEFAULT_SCRATCH (1ull << 20)
#define HUGE_PAGE (2ull << 20)
#define SPIN_NS 20000
#define DESTROYED (1u << 31)

/* Variables that different threads write are on different cache lines. */
#define LINE __attribute__((aligned(64)))

struct worker {
  skeep_pool *pool;
  pthread_t thread;
  char *scratch;
};

struct skeep_pool {
  /* The region: written by its caller before the gate opens. */
  skeep_task *task;
  void *arg;
  uint32_t tasks;
  uint64_t fault; /* address of the first fault, 0 = none */
  uint32_t next LINE; /* task */
  uint32_t gate LINE; /* workers inside, and CLOSED */
  uint32_t caller_sleeps;
  uint32_t epoch LINE; /* counts regions; workers wait for it to change */
  uint32_t sleepers;
  uint32_t stop;

  /* Which turns are running. */
  pthread_mutex_t turn LINE;
  pthread_cond_t free;
  int main_busy, spare_busy;
  uint32_t users LINE; /* operations that have begun, and DESTROYED */

  uint32_t threads;
  uint32_t wake;   /* how many workers a region wakes: as many as there are other processors, at least one */
  int64_t spin_ns; /* how long a thread spins before it sleeps; 0 when there are more threads than processors */
  size_t scratch;  /* bytes of each set */
  char *memory;    /* threads + 1 sets of scratch (caller, workers, spare one), then the shared buffers of two turns */
  size_t length;
  struct worker *workers; /* threads - 1 */
};

static void futex_wait(uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(uint32_t *word, uint32_t count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void pause_cpu(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Spins until *word differs from value, for at most ns nanoseconds. Returns the last value read. */
static uint32_t spin_while(uint32_t *word, uint32_t value, int64_t ns) {
  uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  if (seen != value || !ns) return seen;
  const int64_t until = now_ns() + ns;
  do {
    for (int i = 0; i < 32; i++) {
      if ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value) return seen;
      pause_cpu();
    }
  } while (now_ns() < until);
  return seen;
}

/* ---- running tasks ---- */

/* The tasks that one thread takes from, of the pool's region or of a caller that runs alone. */
struct share {
  skeep_task *task;
  void *arg, *scratch;
  uint32_t tasks, *next;
};

static void run_share(void *p) {
  const struct share *s = p;
  uint32_t i;
  while ((i = __atomic_fetch_add(s->next, 1, __ATOMIC_RELAXED)) < s->tasks) s->task(s->arg, i, s->scratch);
}

/* Runs tasks of the pool's region until none is left. After a fault, no thread begins another task. */
static void take_part(skeep_pool *pool, char *scratch) {
  struct share s = {pool->task, pool->arg, scratch, pool->tasks, &pool->next};
  const uint64_t fault = skeep_guarded(run_share, &s);
  if (!fault) return;
  uint64_t none = 0;
  __atomic_compare_exchange_n(&pool->fault, &none, fault, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  __atomic_store_n(&pool->next, s.tasks, __ATOMIC_RELAXED);
}

static void *work(void *p) {
  struct worker *w = p;
  skeep_pool *pool = w->pool;
  uint32_t seen = 0;
  skeep_float_restore(SKEEP_FLOAT_DEFAULT); /* a new thread inherits the control of its creator */
  for (;;) {
    uint32_t epoch = spin_while(&pool->epoch, seen, pool->spin_ns);
    if (epoch == seen) {
      __atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
      while ((epoch = __atomic_load_n(&pool->epoch, __ATOMIC_SEQ_CST)) == seen) futex_wait(&pool->epoch, seen);
      __atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    seen = epoch;
    if (__atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE)) return NULL;
    if (!(__atomic_fetch_add(&pool->gate, 1, __ATOMIC_ACQ_REL) & CLOSED)) take_part(pool, w->scratch);
    if (__atomic_sub_fetch(&pool->gate, 1, __ATOMIC_SEQ_CST) == CLOSED &&
        __atomic_load_n(&pool->caller_sleeps, __ATOMIC_SEQ_CST))
      futex_wake(&pool->gate, 1);
  }
}

/* next exceeds tasks by at most one for each thread. */
_Static_assert(MAX_THREADS < (1u << 16), "next cannot wrap");
#define MAX_TASKS (UINT32_MAX - (1u << 16))

static void run_region(skeep_pool *pool, skeep_task *task, void *arg, uint32_t tasks) {
  pool->task = task;
  pool->arg = arg;
  pool->tasks = tasks;
  pool->fault = 0;
  __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
  if (tasks == 1 || pool->threads == 1) {
    take_part(pool, pool->memory);
    return;
  }
  __atomic_and_fetch(&pool->gate, ~CLOSED, __ATOMIC_RELEASE);
  __atomic_add_fetch(&pool->epoch, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST)) futex_wake(&pool->epoch, tasks - 1 < pool->wake ? tasks - 1 : pool->wake);
  take_part(pool, pool->memory);
  uint32_t inside = __atomic_or_fetch(&pool->gate, CLOSED, __ATOMIC_ACQ_REL);
  const int64_t until = inside == CLOSED || !pool->spin_ns ? 0 : now_ns() + pool->spin_ns;
  while ((inside = __atomic_load_n(&pool->gate, __ATOMIC_ACQUIRE)) != CLOSED) {
    if (until && now_ns() < until) {
      pause_cpu();
      continue;
    }
    __atomic_store_n(&pool->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    inside = __atomic_load_n(&pool->gate, __ATOMIC_SEQ_CST);
    if (inside != CLOSED) futex_wait(&pool->gate, inside);
    __atomic_store_n(&pool->caller_sleeps, 0, __ATOMIC_RELAXED);
  }
}

/* Takes the workers or, when they are busy, the spare scratch; waits when both are in use. */
struct skeep_turn skeep_turn_take(skeep_pool *pool) {
  pthread_mutex_lock(&pool->turn);
  while (pool->main_busy && pool->spare_busy) pthread_cond_wait(&pool->free, &pool->turn);
  const int is_main = !pool->main_busy;
  *(is_main ? &pool->main_busy : &pool->spare_busy) = 1;
  pthread_mutex_unlock(&pool->turn);
  char *shared = pool->memory + (pool->threads + 1) * pool->scratch;
  return (struct skeep_turn){pool, shared + (is_main ? 0 : SKEEP_POOL_SHARED), is_main};
}

void skeep_turn_give(const struct skeep_turn *turn) {
  skeep_pool *pool = turn->pool;
  pthread_mutex_lock(&pool->turn);
  *(turn->is_main ? &pool->main_busy : &pool->spare_busy) = 0;
  pthread_cond_signal(&pool->free);
  pthread_mutex_unlock(&pool->turn);
}

skeep_status skeep_turn_run(const struct skeep_turn *turn, skeep_task *task, void *arg, uint32_t tasks) {
  skeep_pool *pool = turn->pool;
  uint64_t fault;
  if (tasks > MAX_TASKS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, tasks);
  if (!tasks) return skeep_ok();
  if (turn->is_main) {
    run_region(pool, task, arg, tasks);
    fault = pool->fault;
  } else {
    uint32_t next = 0;
    struct share s = {task, arg, pool->memory + pool->threads * pool->scratch, tasks, &next};
    fault = skeep_guarded(run_share, &s);
  }
  return fault ? skeep_fail(SKEEP_ERR_FAULT, -1, fault) : skeep_ok();
}

skeep_status skeep_pool_run(skeep_pool *pool, skeep_task *task, void *arg, uint32_t tasks) {
  const struct skeep_turn turn = skeep_turn_take(pool);
  const skeep_status st = skeep_turn_run(&turn, task, arg, tasks);
  skeep_turn_give(&turn);
  return st;
}

void skeep_pool_enter(skeep_pool *pool) { __atomic_add_fetch(&pool->users, 1, __ATOMIC_ACQUIRE); }

/* The last one to leave does not access the pool afterwards; it only uses an address in it, to wake
 * skeep_pool_destroy. */
void skeep_pool_leave(skeep_pool *pool) {
  if (__atomic_sub_fetch(&pool->users, 1, __ATOMIC_SEQ_CST) == DESTROYED) futex_wake(&pool->users, 1);
}

/* ---- life ---- */

uint32_t skeep_pool_threads(const skeep_pool *pool) { return pool ? pool->threads : 0; }
size_t skeep_pool_scratch(const skeep_pool *pool) { return pool->scratch; }

static void stop_workers(skeep_pool *pool, uint32_t count) {
  __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
  __atomic_add_fetch(&pool->epoch, 1, __ATOMIC_SEQ_CST);
  futex_wake(&pool->epoch, INT_MAX);
  for (uint32_t i = 0; i < count; i++) pthread_join(pool->workers[i].thread, NULL);
}

static void release(skeep_pool *pool) {
  if (pool->memory) munmap(pool->memory, pool->length);
  pthread_cond_destroy(&pool->free);
  pthread_mutex_destroy(&pool->turn);
  free(pool->workers);
  free(pool);
}

/* Processors that this thread may run on; at least 1. */
static uint32_t processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

skeep_status skeep_pool_create(uint32_t threads, uint64_t scratch, skeep_pool **out) {
  SKEEP_KEEP_ERRNO;
  if (!out) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
  const uint32_t room = processors();
  if (!threads) threads = room < MAX_THREADS ? room : MAX_THREADS;
  if (threads > MAX_THREADS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  if (!scratch) scratch = DEFAULT_SCRATCH;
  if (scratch < SKEEP_MATMUL_SCRATCH) scratch = SKEEP_MATMUL_SCRATCH;
  if (scratch > (uint64_t)PTRDIFF_MAX / (2 * MAX_THREADS)) return skeep_fail(SKEEP_ERR_MEMORY, -1, scratch);
  scratch = (scratch + 4095) & ~4095ull;

  skeep_pool *pool = aligned_alloc(64, sizeof *pool);
  if (!pool) return skeep_fail(SKEEP_ERR_MEMORY, -1, sizeof *pool);
  memset(pool, 0, sizeof *pool);
  pthread_mutex_init(&pool->turn, NULL);
  pthread_cond_init(&pool->free, NULL);
  pool->threads = threads;
  pool->scratch = scratch;
  pool->gate = CLOSED;
  pool->length = scratch * (threads + 1) + 2 * SKEEP_POOL_SHARED;
  pool->wake = room > 1 ? (threads < room ? threads : room) - 1 : 1;
  pool->spin_ns = threads > room ? 0 : SPIN_NS;
  pool->workers = calloc(threads, sizeof *pool->workers);
  void *memory = mmap(NULL, pool->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) pool->memory = memory;
  if (!pool->workers || !pool->memory) {
    const uint64_t asked = pool->length;
    release(pool);
    return skeep_fail(SKEEP_ERR_MEMORY, -1, asked);
  }
  if (pool->length >= HUGE_PAGE) (void)madvise(pool->memory, pool->length, MADV_HUGEPAGE);

  /* Workers inherit a signal mask that leaves asynchronous signals to the threads of the host. */
  static const int synchronous[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGPROF};
  sigset_t mask, before;
  sigfillset(&mask);
  for (size_t i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++) sigdelset(&mask, synchronous[i]);
  pthread_sigmask(SIG_SETMASK, &mask, &before);
  int failed = 0;
  uint32_t made = 0;
  for (; made + 1 < threads; made++) {
    struct worker *w = &pool->workers[made];
    w->pool = pool;
    w->scratch = pool->memory + (made + 1) * scratch;
    failed = pthread_create(&w->thread, NULL, work, w);
    if (failed) break;
    pthread_setname_np(w->thread, "skeep");
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    stop_workers(pool, made);
    release(pool);
    return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)failed);
  }
  *out = pool;
  return skeep_ok();
}

void skeep_pool_destroy(skeep_pool *pool) {
  SKEEP_KEEP_ERRNO;
  if (!pool) return;
  uint32_t users = __atomic_or_fetch(&pool->users, DESTROYED, __ATOMIC_SEQ_CST);
  while (users != DESTROYED) {
    futex_wait(&pool->users, users);
    users = __atomic_load_n(&pool->users, __ATOMIC_SEQ_CST);
  }
  stop_workers(pool, pool->threads - 1);
  release(pool);
}
