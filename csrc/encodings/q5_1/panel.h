/* code * d + m. See decode_portable.h. */
#include "encodings/shared/fifth_panel.h"

static const struct panel_form q5_1_panel = {.bits = 5, .halves = 1, .offsets = 1, PANEL_BLOCK(q5_1)};

SKEEP_INLINE void q5_1_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  panel_dwords(s, at, offsetof(skeep_block_q5_1, d), 2, b->head);
  b->d = panel_half(b->head[0]);
  b->m = panel_half(panel_right(b->head[0], 16));
}

SKEEP_INLINE void q5_1_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  (void)g;
  fifth_read(s, at, offsetof(skeep_block_q5_1, qs), b->head[1], out);
  out->scale[0] = b->d;
  out->offset[0] = b->m;
}
