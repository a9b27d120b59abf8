/* Regions of the pool: each task runs once, no thread waits for one that has not begun a task, several pools run beside
 * each other, idle workers sleep, and workers keep to the processors of the host's threads. */
#include "check.h"

#include "internal.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

enum { TASKS = 300 };

static pid_t thread_id(void) { return (pid_t)syscall(SYS_gettid); }

/* What a region does: counts its tasks. A worker leaves its thread's number. */
struct counts {
  uint32_t runs[TASKS], finished;
  pid_t caller, worker;
  int delay; /* the first task of a worker waits until all others are finished */
  uint32_t tasks;
};

static void count(void *arg, uint32_t index, void *scratch) {
  struct counts *c = arg;
  const pid_t me = thread_id();
  *(volatile char *)scratch = 1;
  __atomic_add_fetch(&c->runs[index], 1, __ATOMIC_RELAXED);
  if (me != c->caller) {
    pid_t none = 0;
    if (__atomic_compare_exchange_n(&c->worker, &none, me, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) && c->delay)
      while (__atomic_load_n(&c->finished, __ATOMIC_RELAXED) + 1 < c->tasks) sched_yield();
  } else if (c->delay && index == 0) {
    for (int i = 0; i < 1000 && !__atomic_load_n(&c->worker, __ATOMIC_RELAXED); i++) sched_yield();
  }
  __atomic_add_fetch(&c->finished, 1, __ATOMIC_RELAXED);
}

/* Runs a region of so many tasks. Returns a worker that took part, or 0. */
static pid_t region(skeep_pool *pool, uint32_t tasks, int delay) {
  struct counts c = {.caller = thread_id(), .delay = delay, .tasks = tasks};
  CHECK_OK(skeep_pool_run(pool, count, &c, tasks));
  CHECK(c.finished == tasks);
  for (uint32_t i = 0; i < TASKS; i++)
    if (c.runs[i] != (i < tasks)) CHECK(!"each task runs once");
  return c.worker;
}

/* A worker of this pool. */
static pid_t worker_of(skeep_pool *pool) {
  for (int i = 0; i < 100000; i++) {
    const pid_t worker = region(pool, TASKS, 1);
    if (worker) return worker;
  }
  NEED(!"a worker takes part");
  return 0;
}

static skeep_pool *pool_of(uint32_t threads) {
  skeep_pool *pool;
  NEED(skeep_pool_create(threads, 0, &pool).code == SKEEP_OK);
  return pool;
}

static void every_task_once(void) {
  for (uint32_t threads = 1; threads < 6; threads += threads < 3 ? 1 : 2) {
    skeep_pool *pool = pool_of(threads);
    for (uint32_t tasks = 1; tasks <= TASKS; tasks += 1 + tasks / 8)
      for (int i = 0; i < 20; i++) (void)region(pool, tasks, 0);
    if (threads > 1)
      for (int i = 0; i < 50; i++) (void)region(pool, TASKS, 1); /* others take over what a delayed worker leaves */
    skeep_pool_destroy(pool);
  }
}

/* ---- a worker that the system does not run ---- */

static sem_t stopped, resume;
static void stop_here(int signal) {
  const int error = errno;
  (void)signal;
  sem_post(&stopped);
  while (sem_wait(&resume)) {}
  errno = error;
}

static void stopped_worker(void) {
  skeep_pool *pool = pool_of(2);
  const pid_t worker = worker_of(pool);
  NEED(!sem_init(&stopped, 0, 0) && !sem_init(&resume, 0, 0));
  NEED(!sigaction(SIGPROF, &(struct sigaction){.sa_handler = stop_here}, NULL));
  for (int i = 0; i < 20; i++) {
    (void)region(pool, TASKS, 0);
    NEED(!syscall(SYS_tgkill, getpid(), worker, SIGPROF));
    while (sem_wait(&stopped)) {}
    for (uint32_t tasks = 1; tasks <= 20; tasks++) CHECK(region(pool, tasks, 0) == 0);
    sem_post(&resume);
  }
  CHECK(worker_of(pool) == worker);
  skeep_pool_destroy(pool);
}

/* ---- idle workers ---- */

static char state_of(pid_t thread) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)thread);
  FILE *f = fopen(name, "r");
  NEED(f);
  const size_t n = fread(text, 1, sizeof text - 1, f);
  text[n] = 0;
  fclose(f);
  const char *end = strrchr(text, ')');
  NEED(end && end[1] == ' ');
  return end[2];
}

/* Returns never, when it goes on spinning. */
static void wait_until_asleep(pid_t thread) {
  while (state_of(thread) != 'S') sched_yield();
}

static void idle_workers_sleep(void) {
  skeep_pool *pool = pool_of(2);
  for (int i = 0; i < 20; i++) wait_until_asleep(worker_of(pool));
  skeep_pool_destroy(pool);
}

/* ---- several pools ---- */

static void *use_own_pool(void *arg) {
  (void)arg;
  for (int round = 0; round < 5; round++) {
    skeep_pool *pool = pool_of(2), *idle = pool_of(3);
    for (uint32_t i = 0; i < 400; i++) (void)region(pool, 1 + i % TASKS, 0);
    (void)region(idle, TASKS, 1);
    skeep_pool_destroy(pool);
    skeep_pool_destroy(idle);
  }
  return NULL;
}

static void several_pools(void) {
  pthread_t thread[3];
  for (int i = 0; i < 3; i++) NEED(!pthread_create(&thread[i], NULL, use_own_pool, NULL));
  for (int i = 0; i < 3; i++) NEED(!pthread_join(thread[i], NULL));
}

/* ---- processors ---- */

static int only(pid_t thread, size_t cpu) {
  cpu_set_t set;
  NEED(!sched_getaffinity(thread, sizeof set, &set));
  return CPU_COUNT(&set) == 1 && CPU_ISSET(cpu, &set);
}

static void processors_of_the_host(void) {
  cpu_set_t all, one;
  NEED(!sched_getaffinity(0, sizeof all, &all));
  size_t cpu = 0;
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);

  /* Given later to all threads. */
  skeep_pool *pool = pool_of(2);
  pid_t worker = worker_of(pool);
  wait_until_asleep(worker);
  NEED(!sched_setaffinity(worker, sizeof one, &one) && !sched_setaffinity(0, sizeof one, &one));
  for (int i = 0; i < 50; i++) CHECK(worker_of(pool) == worker && only(worker, cpu));
  skeep_pool_destroy(pool);

  /* Inherited. */
  pool = pool_of(2);
  worker = worker_of(pool);
  for (int i = 0; i < 50; i++) CHECK(worker_of(pool) == worker && only(worker, cpu));
  skeep_pool_destroy(pool);
  NEED(!sched_setaffinity(0, sizeof all, &all));
}

int main(void) {
  every_task_once();
  stopped_worker();
  idle_workers_sleep();
  several_pools();
  processors_of_the_host();
  return check_result();
}
