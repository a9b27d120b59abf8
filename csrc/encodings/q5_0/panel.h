/* (code - 16) * d. See decode_portable.h. */
#include "encodings/shared/fifth_panel.h"

static const struct panel_form q5_0_panel = {.bits = 5, .zero = 16, .halves = 1, PANEL_BLOCK(q5_0)};

SKEEP_INLINE void q5_0_open(const char *const *row, size_t at, struct panel_block *b) {
  rows_by_dword(row, at, b->head); /* d, then the two halves of qh, which follow at an odd place */
  b->d = panel_half(b->head[0]);
  b->head[4] = panel_right(b->head[0], 16) | panel_left(b->head[1], 16);
}

SKEEP_INLINE void q5_0_read(const char *const *row, size_t at, struct panel_block *b, int g, struct panel_group *out) {
  (void)g;
  fifth_read(row, at + offsetof(skeep_block_q5_0, qs), b->head[4], out);
  out->scale[0] = b->d;
}
