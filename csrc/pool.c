/* The pool: persistent worker threads that share the tasks of a region (one parallel run) with its caller.
 *
 * `left` counts the tasks that no thread has begun. A thread begins one by taking 1 from it, and only then reads the
 * region: its fields do not change while a task is unfinished. The caller waits until none is. So a worker that the
 * system has not woken yet, or that it has taken the processor from, costs nothing unless it has begun a task.
 *
 * Beside other busy processes, a region is as slow as a thread that loses its processor in the middle of a task. So
 * workers offer theirs from time to time between two tasks, and they stay off the processor of the caller, whom nobody
 * can replace. */
#include "internal.h"
#include "measure.h"

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

#define MAX_THREADS 1024u
#define DEFAULT_SCRATCH (1ull << 20)
#define HUGE_PAGE (2ull << 20)
#define DESTROYED (1u << 31)
#define STOP UINT32_MAX      /* in place of the number of tasks that are left */
#define MAX_TASKS (STOP - 1)

/* A thread that waits spins so long, then lets others run, and after so long it sleeps. The first is more than what
 * lies between most regions of a step, and the second more than 0.5 ms: so long the system takes a thread that was
 * interrupted to be better off where it ran, and does not move it to the processor of one that sleeps. */
#define SPIN_NS 100000
#define WAIT_NS 1000000
/* A worker offers its processor after running so long: less than the system lets a thread run beside others. */
#define RUN_NS 2000000
/* So long between two looks at the clock, another thread has run meanwhile. */
#define INTERRUPTED_NS 1000000

/* Variables that different threads write are on different cache lines. */
#define LINE __attribute__((aligned(64)))

struct worker {
  skeep_pool *pool;
  pthread_t thread;
  char *scratch;
  int64_t since, seen; /* when it began to run, and last looked at the clock */
};

struct skeep_pool {
  /* The region: written by its caller while no task is unfinished. */
  skeep_task *task;
  void *arg;
  uint32_t tasks;
  uint64_t fault;     /* address of the first fault, 0 = none */
  pid_t caller;
  int cpu;            /* the caller's processor */
  uint32_t left LINE; /* tasks that no thread has begun, or STOP; workers wait for it to change from 0 */
  uint32_t sleepers;
  uint32_t unfinished LINE; /* tasks; the caller waits for 0 */
  uint32_t caller_sleeps;

  /* Which turns are running. */
  pthread_mutex_t turn LINE;
  pthread_cond_t free;
  int main_busy, spare_busy;
  uint32_t users LINE; /* operations that have begun, and DESTROYED */

  uint32_t threads;
  uint32_t processors; /* that the threads may run on */
  cpu_set_t allowed;   /* these processors */
  uint32_t wake;       /* how many workers a region wakes: as many as there are other processors, at least one */
  size_t scratch;      /* bytes of each set */
  char *memory; /* threads + 1 sets of scratch (caller, workers, spare one), then the shared buffers of two turns */
  size_t length;
  struct worker *workers; /* threads - 1 */
};

/* Threads of all pools of the process that run tasks or wait without sleeping. */
static uint32_t awake LINE;

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

/* Waits until *word differs from value, but not long, and not at all while more threads are awake than there are
 * processors. Returns the last value read. */
static uint32_t wait_briefly(const skeep_pool *pool, uint32_t *word, uint32_t value) {
  uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  if (seen != value) return seen;
  const int64_t from = now_ns();
  while (__atomic_load_n(&awake, __ATOMIC_RELAXED) <= pool->processors) {
    for (int i = 0; i < 32; i++) {
      if ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value) return seen;
      pause_cpu();
    }
    const int64_t waited = now_ns() - from;
    if (waited >= WAIT_NS) break;
    if (waited >= SPIN_NS) sched_yield();
  }
  return seen;
}

static void awake_add(int32_t threads) { __atomic_add_fetch(&awake, (uint32_t)threads, __ATOMIC_RELAXED); }

/* ---- running tasks ---- */

/* Tasks of a caller that runs alone. */
struct share {
  skeep_task *task;
  void *arg, *scratch;
  uint32_t tasks;
};

static void run_share(void *p) {
  const struct share *s = p;
  for (uint32_t i = 0; i < s->tasks; i++) s->task(s->arg, i, s->scratch);
}

/* A thread of a region: a worker, or the caller. */
struct part {
  skeep_pool *pool;
  char *scratch;
  struct worker *worker; /* or NULL */
};

/* Between two tasks, lets another thread run that waits for this processor, if it is time. */
static void offer_processor(struct worker *w) {
  const int64_t now = now_ns();
  if (now - w->seen > INTERRUPTED_NS) w->since = now;
  w->seen = now;
  if (now - w->since < RUN_NS) return;
  sched_yield();
  w->seen = w->since = now_ns();
}

/* Whether there was a task to begin. */
static int begin(skeep_pool *pool, uint32_t *index) {
  uint32_t left = __atomic_load_n(&pool->left, __ATOMIC_ACQUIRE);
  do
    if (!left || left == STOP) return 0;
  while (!__atomic_compare_exchange_n(&pool->left, &left, left - 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
  *index = pool->tasks - left;
  return 1;
}

static void finish(skeep_pool *pool, uint32_t tasks) {
  if (!__atomic_sub_fetch(&pool->unfinished, tasks, __ATOMIC_SEQ_CST) &&
      __atomic_load_n(&pool->caller_sleeps, __ATOMIC_SEQ_CST))
    futex_wake(&pool->unfinished, 1);
}

static void run_part(void *arg) {
  const struct part *p = arg;
  skeep_pool *pool = p->pool;
  uint32_t i;
  for (;;) {
    if (p->worker) offer_processor(p->worker);
    if (!begin(pool, &i)) return;
    pool->task(pool->arg, i, p->scratch);
    finish(pool, 1);
  }
}

/* Runs tasks of the pool's region until none is left. After a fault, no thread begins another task. */
static void take_part(struct part p) {
  const uint64_t fault = skeep_guarded(run_part, &p);
  if (!fault) return;
  uint64_t none = 0;
  __atomic_compare_exchange_n(&p.pool->fault, &none, fault, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  finish(p.pool, 1 + __atomic_exchange_n(&p.pool->left, 0, __ATOMIC_ACQ_REL));
}

/* Leaves the caller's processor for another one that the pool's creator and the caller may run on. */
static void leave_caller(const skeep_pool *pool) {
  const int cpu = __atomic_load_n(&pool->cpu, __ATOMIC_RELAXED);
  cpu_set_t set;
  if (pool->threads > pool->processors || cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu) return;
  if (sched_getaffinity(__atomic_load_n(&pool->caller, __ATOMIC_RELAXED), sizeof set, &set)) return;
  CPU_AND(&set, &set, &pool->allowed);
  CPU_CLR((size_t)cpu, &set);
  if (CPU_COUNT(&set)) (void)sched_setaffinity(0, sizeof set, &set);
}

static void *work(void *p) {
  struct worker *w = p;
  skeep_pool *pool = w->pool;
  uint32_t left;
  skeep_float_restore(SKEEP_FLOAT_DEFAULT); /* a new thread inherits the control of its creator */
  awake_add(1);
  while ((left = wait_briefly(pool, &pool->left, 0)) != STOP) {
    if (left) {
      leave_caller(pool);
      take_part((struct part){pool, w->scratch, w});
      continue;
    }
    awake_add(-1);
    __atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&pool->left, __ATOMIC_SEQ_CST)) futex_wait(&pool->left, 0);
    __atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    awake_add(1);
  }
  awake_add(-1);
  return NULL;
}

/* Returns the address of the first fault, 0 = none. */
static uint64_t run_alone(skeep_task *task, void *arg, uint32_t tasks, char *scratch) {
  struct share s = {task, arg, scratch, tasks};
  return skeep_guarded(run_share, &s);
}

static uint64_t run_region(skeep_pool *pool, skeep_task *task, void *arg, uint32_t tasks) {
  if (tasks == 1 || pool->threads == 1) return run_alone(task, arg, tasks, pool->memory);
  pool->task = task;
  pool->arg = arg;
  pool->tasks = tasks;
  pool->fault = 0;
  __atomic_store_n(&pool->caller, (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
  __atomic_store_n(&pool->cpu, sched_getcpu(), __ATOMIC_RELAXED);
  __atomic_store_n(&pool->unfinished, tasks, __ATOMIC_RELAXED);
  awake_add(1);
  __atomic_store_n(&pool->left, tasks, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST))
    futex_wake(&pool->left, tasks - 1 < pool->wake ? tasks - 1 : pool->wake);
  take_part((struct part){pool, pool->memory, NULL});
  uint32_t unfinished = __atomic_load_n(&pool->unfinished, __ATOMIC_ACQUIRE);
  while (unfinished) {
    const uint32_t now = wait_briefly(pool, &pool->unfinished, unfinished);
    if (now == unfinished) {
      __atomic_store_n(&pool->caller_sleeps, 1, __ATOMIC_SEQ_CST);
      if (__atomic_load_n(&pool->unfinished, __ATOMIC_SEQ_CST) == now) futex_wait(&pool->unfinished, now);
      __atomic_store_n(&pool->caller_sleeps, 0, __ATOMIC_RELAXED);
    }
    unfinished = __atomic_load_n(&pool->unfinished, __ATOMIC_ACQUIRE);
  }
  awake_add(-1);
  return pool->fault;
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
  if (tasks > MAX_TASKS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, tasks);
  if (!tasks) return skeep_ok();
  const uint64_t fault = turn->is_main ? run_region(pool, task, arg, tasks)
                                       : run_alone(task, arg, tasks, pool->memory + pool->threads * pool->scratch);
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
  __atomic_store_n(&pool->left, STOP, __ATOMIC_SEQ_CST);
  futex_wake(&pool->left, INT_MAX);
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
static uint32_t processors(cpu_set_t *set) {
  CPU_ZERO(set);
  return sched_getaffinity(0, sizeof *set, set) ? 1 : (uint32_t)CPU_COUNT(set);
}

/* A child of the process has none of its threads. */
static void forget_threads(void) { __atomic_store_n(&awake, 0, __ATOMIC_RELAXED); }
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, forget_threads); }

/* The scratch of each task: what was asked for, but enough for products, in whole pages. */
static uint64_t scratch_of(uint64_t asked) {
  if (!asked) asked = DEFAULT_SCRATCH;
  if (asked < SKEEP_MATMUL_SCRATCH) asked = SKEEP_MATMUL_SCRATCH;
  return (asked + 4095) & ~4095ull;
}

uint64_t skeep_pool_bytes(uint32_t threads, uint64_t scratch) {
  return scratch_of(scratch) * (threads + 1) + 2 * SKEEP_POOL_SHARED;
}

skeep_status skeep_pool_create(uint32_t threads, uint64_t scratch, skeep_pool **out) {
  SKEEP_KEEP_ERRNO;
  if (!out) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
  static pthread_once_t watched = PTHREAD_ONCE_INIT;
  cpu_set_t allowed;
  const uint32_t room = processors(&allowed);
  if (!threads) threads = room < MAX_THREADS ? room : MAX_THREADS;
  if (threads > MAX_THREADS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  if (scratch > (uint64_t)PTRDIFF_MAX / (2 * MAX_THREADS)) return skeep_fail(SKEEP_ERR_MEMORY, -1, scratch);

  skeep_pool *pool = aligned_alloc(64, sizeof *pool);
  if (!pool) return skeep_fail(SKEEP_ERR_MEMORY, -1, sizeof *pool);
  memset(pool, 0, sizeof *pool);
  pthread_mutex_init(&pool->turn, NULL);
  pthread_cond_init(&pool->free, NULL);
  pool->threads = threads;
  pool->scratch = scratch_of(scratch);
  pool->length = skeep_pool_bytes(threads, scratch);
  pool->wake = room > 1 ? (threads < room ? threads : room) - 1 : 1;
  pool->processors = room;
  pool->allowed = allowed;
  pool->workers = calloc(threads, sizeof *pool->workers);
  void *memory = mmap(NULL, pool->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) pool->memory = memory;
  if (!pool->workers || !pool->memory) {
    const uint64_t asked = pool->length;
    release(pool);
    return skeep_fail(SKEEP_ERR_MEMORY, -1, asked);
  }
  if (pool->length >= HUGE_PAGE) (void)madvise(pool->memory, pool->length, MADV_HUGEPAGE);

  pthread_once(&watched, watch_forks);
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
    w->scratch = pool->memory + (made + 1) * pool->scratch;
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
