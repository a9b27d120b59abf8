/* d * scale * code - dmin * min. See decode_portable.h. */
#include "encodings/shared/k4_panel.h"

static const struct panel_form q4_k_panel = {.bits = 4, .halves = 1, .offsets = 1, PANEL_BLOCK(q4_k)};

SKEEP_INLINE void q4_k_open(const struct panel_source *s, size_t at, struct panel_block *b) { k4_open(s, at, b); }

SKEEP_INLINE void q4_k_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  if (g % 2 == 0) panel_dwords(s, at, offsetof(skeep_block_q4_k, qs) + (size_t)g / 2 * 32, 8, b->raw);
  for (int i = 0; i < 8; i++) out->code[i] = panel_right(b->raw[i], g % 2 * 4) & panel_bytes(15);
  k4_scales(b, g, out);
}
