/* Cutting the work of an operation into tasks for the pool. */
#ifndef SKEEP_OP_TASKS_H
#define SKEEP_OP_TASKS_H

#include "internal.h"

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* Units of work 0 .. units-1; each task gets per_task consecutive ones. */
struct tasks {
  uint64_t units, per_task;
  uint32_t count;
};

/* How many tasks there are for each thread, so that a slow thread delays the others little: when units cost the same,
 * and when they do not. */
enum { TASKS_EVEN = 4, TASKS_UNEVEN = 64 };

/* Cuts units of `size` each so that a task has at least `worth`, which makes it worthwhile to wake a worker. */
static inline struct tasks tasks_of(const skeep_pool *pool, uint64_t units, uint64_t size, uint64_t worth,
                                    uint64_t per_thread) {
  const uint64_t max_tasks = per_thread * skeep_pool_threads(pool);
  uint64_t per_task = (units - 1) / max_tasks + 1;
  if (per_task < (worth - 1) / size + 1) per_task = (worth - 1) / size + 1;
  return (struct tasks){units, per_task, (uint32_t)((units - 1) / per_task + 1)};
}

static inline uint64_t tasks_begin(const struct tasks *t, uint32_t task) { return task * t->per_task; }
static inline uint64_t tasks_end(const struct tasks *t, uint32_t task) {
  const uint64_t end = (task + 1) * t->per_task;
  return end < t->units ? end : t->units;
}

#endif
