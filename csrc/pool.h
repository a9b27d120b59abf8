/* The pool of threads, and catching faults of mapped pages. Part of internal.h. */
#ifndef SKEEP_POOL_H
#define SKEEP_POOL_H

/* Runs task(arg, index, scratch) for index in [0, tasks) on the pool's workers and the caller, each index
 * once, in any order; returns after all are done. ERR_FAULT when a mapped page faulted. */
typedef void skeep_task(void *arg, uint32_t index, void *scratch);
skeep_status skeep_pool_run(skeep_pool *pool, skeep_task *task, void *arg, uint32_t tasks);
size_t skeep_pool_scratch(const skeep_pool *pool); /* bytes that each task's scratch has, 64-byte aligned */
/* A turn: several regions (parallel runs) one after the other, with a buffer that no other operation uses meanwhile. It
 * replaces arrays on the caller's stack, which may be small. skeep_pool_run is a turn with one region. */
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

/* Runs f(arg) on this thread. Returns 0 when f returned. When a mapped page could not be read, f is abandoned at that
 * point and the address is returned. Calls may be nested. Costs about 15 ns. The thread must not block SIGBUS. */
uint64_t skeep_guarded(void (*f)(void *arg), void *arg);
/* Unblocks SIGBUS on this thread, when the guard is installed. Returns 1 when it was blocked: then skeep_guard_shut
 * must block it again. step is the serial of the running step, 0 = none: a thread found unblocked in that step is not
 * checked again. */
int skeep_guard_open(uint64_t step);
void skeep_guard_shut(void);

#endif
