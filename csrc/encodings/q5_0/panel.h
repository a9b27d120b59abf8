/* (code - 16) * d. See decode_portable.h. */
#include "encodings/shared/fifth_panel.h"

static const struct panel_form q5_0_panel = {.bits = 5, .zero = 16, .halves = 1, PANEL_BLOCK(q5_0)};

SKEEP_INLINE void q5_0_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  b->d = panel_halves(s, at, offsetof(skeep_block_q5_0, d));
  panel_dwords(s, at, offsetof(skeep_block_q5_0, qh), 1, b->head);
}

SKEEP_INLINE void q5_0_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  (void)g;
  fifth_read(s, at, offsetof(skeep_block_q5_0, qs), b->head[0], out);
  out->scale[0] = b->d;
}
