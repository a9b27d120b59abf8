/* Runs work cut into boxes: a task is a sequence of boxes in row-major order. */
#include "op_boxes.h"

#define WORTH_A_TASK 16384 /* elements */

struct run {
  const struct skeep_boxes *boxes;
  struct tasks tasks;
  skeep_box_body *body;
  const void *arg;
};

/* First index and extents of box i. */
static void box_at(const struct skeep_boxes *b, uint64_t i, int64_t at[4], int64_t extent[4]) {
  for (int a = 3; a >= 0; a--) {
    const uint64_t n = (uint64_t)((b->shape[a] + b->cut[a] - 1) / b->cut[a]);
    at[a] = (int64_t)(i % n) * b->cut[a];
    extent[a] = min_i64(b->cut[a], b->shape[a] - at[a]);
    i /= n;
  }
}

static void run_task(void *arg, uint32_t task, void *scratch) {
  const struct run *r = arg;
  for (uint64_t i = tasks_begin(&r->tasks, task); i < tasks_end(&r->tasks, task); i++) {
    int64_t at[4], extent[4];
    box_at(r->boxes, i, at, extent);
    r->body(r->arg, at, extent, scratch);
  }
}

skeep_status skeep_boxes_run(const struct skeep_boxes *b, skeep_pool *pool, skeep_box_body *body, const void *arg) {
  uint64_t size = 1, count = 1;
  for (int a = 0; a < 4; a++) {
    count *= (uint64_t)((b->shape[a] + b->cut[a] - 1) / b->cut[a]);
    size *= (uint64_t)min_i64(b->cut[a], b->shape[a]);
  }
  struct run r = {b, tasks_of(pool, count, size, WORTH_A_TASK, TASKS_EVEN), body, arg};
  return skeep_pool_run(pool, run_task, &r, r.tasks.count);
}
