/* The index space of an operation, cut into boxes with cut[a] indices along axis a (fewer in the last box). */
#ifndef SKEEP_OP_BOXES_H
#define SKEEP_OP_BOXES_H

#include "op_tasks.h"

typedef void skeep_box_body(const void *arg, const int64_t at[4], const int64_t extent[4], void *scratch);
struct skeep_boxes {
  int64_t shape[4], cut[4];
};
/* Calls body(arg, first index, extents, scratch) once for each box, in any order. */
skeep_status skeep_boxes_run(const struct skeep_boxes *boxes, skeep_pool *pool, skeep_box_body *body, const void *arg);

#endif
