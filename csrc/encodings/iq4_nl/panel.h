/* d * value[code]. See decode_portable.h. */
#include "encodings/shared/value_panel.h"

static const struct panel_form iq4_nl_panel = {.bits = 8, .zero = 128, .halves = 1, PANEL_BLOCK(iq4_nl)};

SKEEP_INLINE void iq4_nl_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  b->d = panel_halves(s, at, offsetof(skeep_block_iq4_nl, d));
}

SKEEP_INLINE void iq4_nl_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                              struct panel_group *out) {
  (void)g;
  value_read(s, at, offsetof(skeep_block_iq4_nl, qs), skeep_values_iq4_nl, 128, out);
  out->scale[0] = b->d;
}
