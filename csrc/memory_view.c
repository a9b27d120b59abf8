/* Views: making and checking them; the address of an element in any block order. */
#include "memory_slot.h"

/* Cells along an axis of extent > 0. */
static int64_t blocks_of(int64_t extent, uint32_t block) { return (extent - 1) / block + 1; }

skeep_status skeep_bytes_of(uint32_t encoding, uint32_t rank, const int64_t *shape, uint64_t *bytes) {
  const skeep_encoding_info *e = skeep_encoding_find(encoding);
  if (!e || !e->block_elements) return skeep_fail(SKEEP_ERR_FORMAT, -1, encoding);
  if (rank > 4 || (rank == 0 && e->block_elements > 1)) return skeep_fail(SKEEP_ERR_SHAPE, -1, rank);
  if (!shape && rank) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
  if (!bytes) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 3);
  int64_t cells = 1;
  for (uint32_t a = 0; a < rank; a++) {
    int64_t n = shape[a];
    if (n <= 0) return skeep_fail(SKEEP_ERR_SHAPE, -1, a);
    if (a == rank - 1) {
      if (n % e->block_elements && encoding != SKEEP_ENC_A8) return skeep_fail(SKEEP_ERR_SHAPE, -1, a);
      n = blocks_of(n, e->block_elements);
    }
    if (__builtin_mul_overflow(cells, n, &cells)) return skeep_fail(SKEEP_ERR_BOUNDS, -1, UINT64_MAX);
  }
  if (__builtin_mul_overflow(cells, (int64_t)e->block_bytes, &cells))
    return skeep_fail(SKEEP_ERR_BOUNDS, -1, UINT64_MAX);
  *bytes = (uint64_t)cells;
  return skeep_ok();
}

skeep_status skeep_view_of(skeep_storage s, uint64_t byte, uint32_t encoding, uint32_t rank, const int64_t *shape,
                           skeep_view *view) {
  SKEEP_KEEP_ERRNO;
  uint64_t bytes;
  if (!view) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 5);
  skeep_status st = skeep_bytes_of(encoding, rank, shape, &bytes);
  if (st.code != SKEEP_OK) {
    if (st.code == SKEEP_ERR_ARGUMENT) st.detail = 4;
    return st;
  }
  struct skeep_slot *slot;
  st = skeep_cell_pin(s.cell, s.generation, &slot);
  if (st.code != SKEEP_OK) {
    if (st.code == SKEEP_ERR_ARGUMENT) st.detail = 0;
    return st;
  }
  const struct skeep_slot *root = slot->root;
  if (byte > root->bytes || bytes > root->bytes - byte) {
    skeep_slot_unpin(slot);
    return skeep_fail(SKEEP_ERR_BOUNDS, -1, byte + bytes < byte ? UINT64_MAX : byte + bytes);
  }
  const skeep_encoding_info *e = skeep_encoding_find(encoding);
  const int packed = e->block_elements > 1;
  *view = (skeep_view){.data = root->address + byte,
                       .bytes = bytes,
                       .cell = s.cell,
                       .generation = s.generation,
                       .storage = root->id,
                       .dtype = (uint16_t)e->dtype,
                       .encoding = (uint16_t)encoding,
                       .layout = {.shape = {1, 1, 1, 1},
                                  .block = e->block_elements,
                                  .rank = (uint8_t)rank,
                                  .block_axis = (int8_t)(packed ? (int)rank - 1 : -1),
                                  .row_axis = -1}};
  skeep_slot_unpin(slot);
  int64_t stride = 1;
  for (uint32_t a = rank; a-- > 0;) {
    view->layout.shape[a] = shape[a];
    view->layout.stride[a] = stride;
    stride *= a == rank - 1 ? blocks_of(shape[a], e->block_elements) : shape[a]; /* skeep_bytes_of bounded it */
  }
  return st;
}

/* ---- checks ---- */

#define FIELD(name) skeep_fail(SKEEP_ERR_ARGUMENT, 0, offsetof(skeep_view, name))

/* The highest position that a layout reaches. Extents and strides are checked already. */
static int highest(const skeep_layout *l, int64_t *position) {
  int64_t top = l->offset, step, count;
  for (uint32_t a = 0; a < l->rank; a++) {
    /* In panels, the last block of the last row is the last one of the plane, whatever its two strides are. */
    if (l->order.family == SKEEP_ORDER_ROW_PANEL && (int)a == l->block_axis) continue;
    count = (int)a == l->block_axis ? blocks_of(l->shape[a], l->block) : l->shape[a];
    if (l->order.family == SKEEP_ORDER_ROW_PANEL && (int)a == l->row_axis) {
      if (__builtin_mul_overflow(l->stride[a], count, &step) || __builtin_add_overflow(top, step - 1, &top)) return 0;
      continue;
    }
    if (__builtin_mul_overflow(l->stride[a], count - 1, &step) || __builtin_add_overflow(top, step, &top)) return 0;
  }
  *position = top;
  return 1;
}

/* The rules of the block order. Each stride and extent by itself is checked already. */
static skeep_status check_order(const skeep_layout *l, uint32_t encoding) {
  const skeep_order o = l->order;
  const int packed = l->block > 1;
  if ((o.interleave || o.version) && !(skeep_order_is_feed(o) && skeep_feed_runs(encoding)))
    return FIELD(layout.order.interleave);
  if (!packed) {
    if (o.family || o.panel) return skeep_fail(SKEEP_ERR_LAYOUT, 0, (uint64_t)-1);
    if (l->block_axis != -1) return FIELD(layout.block_axis);
    if (l->row_axis != -1) return FIELD(layout.row_axis);
    return skeep_ok();
  }
  if (l->block_axis < 0 || l->block_axis >= l->rank) return FIELD(layout.block_axis);
  const int needs_rows = o.family != SKEEP_ORDER_ROW_MAJOR;
  if (needs_rows ? l->row_axis < 0 || l->row_axis >= l->rank || l->row_axis == l->block_axis : l->row_axis != -1)
    return FIELD(layout.row_axis);
  if (o.family > SKEEP_ORDER_ROW_PANEL) return FIELD(layout.order.family);
  if (o.family != SKEEP_ORDER_ROW_PANEL) return o.panel ? FIELD(layout.order.panel) : skeep_ok();
  if (!o.panel) return FIELD(layout.order.panel);
  /* Panels: a view has whole rows, so that its rows have as many blocks as those of the plane. */
  if (l->stride[l->block_axis] != o.panel) return skeep_fail(SKEEP_ERR_LAYOUT, 0, (uint64_t)l->block_axis);
  if (l->stride[l->row_axis] != blocks_of(l->shape[l->block_axis], l->block))
    return skeep_fail(SKEEP_ERR_LAYOUT, 0, (uint64_t)l->row_axis);
  return skeep_ok();
}

/* Bytes from data that the layout reaches; 0 with *st set when it is wrong. */
static uint64_t check_layout(const skeep_layout *l, const skeep_encoding_info *e, skeep_status *st) {
  int64_t top, bytes, elements = 1;
  int countless = 0; /* with strides of 0, few bytes are any number of elements, but 63 bits must hold that number */
  for (uint32_t a = 0; a < 4; a++) {
    countless |= __builtin_mul_overflow(elements, l->shape[a], &elements);
    if (a < l->rank ? l->shape[a] <= 0 : l->shape[a] != 1) {
      *st = skeep_fail(SKEEP_ERR_SHAPE, 0, a);
      return 0;
    }
    if (a < l->rank ? l->stride[a] < 0 : l->stride[a] != 0) {
      *st = skeep_fail(SKEEP_ERR_LAYOUT, 0, a);
      return 0;
    }
  }
  *st = check_order(l, e->id);
  if (st->code != SKEEP_OK) return 0;
  if (l->block > 1 && l->shape[l->block_axis] % l->block && e->id != SKEEP_ENC_A8) {
    *st = skeep_fail(SKEEP_ERR_SHAPE, 0, (uint64_t)l->block_axis);
    return 0;
  }
  if (l->offset < 0) {
    *st = FIELD(layout.offset);
    return 0;
  }
  if (countless || !highest(l, &top) || __builtin_add_overflow(top, 1, &top) ||
      __builtin_mul_overflow(top, (int64_t)e->block_bytes, &bytes)) {
    *st = skeep_fail(SKEEP_ERR_BOUNDS, 0, UINT64_MAX);
    return 0;
  }
  return (uint64_t)bytes;
}

skeep_status skeep_view_check_held(const skeep_view *v, const struct skeep_slot *root) {
  skeep_status st;
  const skeep_layout *l = &v->layout;
  if (v->reserved[0] | v->reserved[1] | v->reserved[2]) return FIELD(reserved);
  if (l->reserved) return FIELD(layout.reserved);
  if (l->reserved2) return FIELD(layout.reserved2);
  const skeep_encoding_info *e = skeep_encoding_find(v->encoding);
  if (!e || !e->block_elements) return skeep_fail(SKEEP_ERR_FORMAT, 0, v->encoding);
  if (v->dtype != e->dtype) return FIELD(dtype);
  if (l->block != e->block_elements) return FIELD(layout.block);
  if (l->rank > 4) return skeep_fail(SKEEP_ERR_SHAPE, 0, l->rank);
  const uint64_t need = check_layout(l, e, &st);
  if (!need) return st;
  if (need > v->bytes) return skeep_fail(SKEEP_ERR_BOUNDS, 0, need);
  /* The view's bytes are within its root. */
  const uint64_t from = v->data - root->address;
  if (from > root->bytes || v->bytes > root->bytes - from) return skeep_fail(SKEEP_ERR_BOUNDS, 0, v->bytes);
  return skeep_ok();
}

skeep_status skeep_view_check(const skeep_view *v) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *slot;
  if (!v) return skeep_fail(SKEEP_ERR_ARGUMENT, 0, 0);
  skeep_status st = skeep_cell_pin(v->cell, v->generation, &slot);
  st.operand = st.code == SKEEP_OK ? -1 : 0;
  if (st.code == SKEEP_ERR_CLOSED) st.detail = v->storage;
  if (st.code != SKEEP_OK) return st;
  st = skeep_view_check_held(v, slot->root);
  skeep_slot_unpin(slot);
  return st;
}

void skeep_view_range(const skeep_view *v, uint64_t *from, uint64_t *to) {
  int64_t top = 0;
  const uint64_t bytes = skeep_encoding_find(v->encoding)->block_bytes;
  (void)highest(&v->layout, &top); /* checked already */
  *from = v->data + (uint64_t)v->layout.offset * bytes;
  *to = v->data + ((uint64_t)top + 1) * bytes;
}

int skeep_view_overlaps_itself(const skeep_view *v) {
  const skeep_layout *l = &v->layout;
  /* By ascending stride, each axis must step over everything that the axes before it reach. A plane of panels has no
   * gaps: it counts as one axis that has been checked. */
  uint32_t done = 0, left = l->rank;
  int64_t reach = 0;
  if (l->order.family == SKEEP_ORDER_ROW_PANEL) {
    done = 1u << l->row_axis | 1u << l->block_axis;
    left -= 2;
    reach = l->shape[l->row_axis] * blocks_of(l->shape[l->block_axis], l->block) - 1;
  }
  for (; left; left--) {
    int64_t min_stride = INT64_MAX, span = 0;
    uint32_t at = 0;
    for (uint32_t a = 0; a < l->rank; a++) {
      if (done >> a & 1 || l->stride[a] > min_stride) continue;
      min_stride = l->stride[a];
      at = a;
    }
    done |= 1u << at;
    span = (int)at == l->block_axis ? blocks_of(l->shape[at], l->block) : l->shape[at];
    if (span == 1) continue;
    if (min_stride <= reach) return 1;
    reach += min_stride * (span - 1); /* bounded by the highest position */
  }
  return 0;
}

const char *skeep_cell(const skeep_view *v, const int64_t *index) {
  const skeep_layout *l = &v->layout;
  const uint64_t bytes = skeep_encoding_find(v->encoding)->block_bytes;
  int64_t position = l->offset;
  if (l->order.family == SKEEP_ORDER_ROW_PANEL) {
    const int64_t row = index[l->row_axis], panel = l->order.panel, whole = l->shape[l->row_axis] / panel * panel;
    const int64_t per_row = l->stride[l->row_axis], block = index[l->block_axis] / l->block;
    position += row < whole ? row / panel * panel * per_row + block * panel + row % panel : row * per_row + block;
    for (int a = 0; a < l->rank; a++)
      if (a != l->row_axis && a != l->block_axis) position += l->stride[a] * index[a];
  } else {
    for (int a = 0; a < l->rank; a++) position += l->stride[a] * (a == l->block_axis ? index[a] / l->block : index[a]);
  }
  return skeep_data(v) + (uint64_t)position * bytes;
}
