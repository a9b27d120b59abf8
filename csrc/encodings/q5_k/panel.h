/* As Q4_K, with a fifth bit of codes from qh. See decode_portable.h. */
#include "encodings/shared/k4_panel.h"

static const struct panel_form q5_k_panel = {.bits = 5, .halves = 1, .offsets = 1, PANEL_BLOCK(q5_k)};

SKEEP_INLINE void q5_k_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  k4_open(s, at, b);
  panel_dwords(s, at, offsetof(skeep_block_q5_k, qh), 8, b->raw + 8);
}

SKEEP_INLINE void q5_k_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  if (g % 2 == 0) panel_dwords(s, at, offsetof(skeep_block_q5_k, qs) + (size_t)g / 2 * 32, 8, b->raw);
  for (int i = 0; i < 8; i++) {
    const panel_int high = b->raw[8 + i], bit = g < 4 ? panel_left(high, 4 - g) : panel_right(high, g - 4);
    out->code[i] = (panel_right(b->raw[i], g % 2 * 4) & panel_bytes(15)) | (bit & panel_bytes(16));
  }
  k4_scales(b, g, out);
}
