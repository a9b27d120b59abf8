/* d * scale * value[code]. See decode_portable.h. */
#include "encodings/shared/value_panel.h"

static const struct panel_form iq4_xs_panel = {.bits = 8, .zero = 128, .halves = 1, PANEL_BLOCK(iq4_xs)};

SKEEP_INLINE void iq4_xs_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  panel_dwords(s, at, 0, 2, b->head); /* d and scales_h, scales_l */
  b->d = panel_half(b->head[0]);
}

SKEEP_INLINE void iq4_xs_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                              struct panel_group *out) {
  value_read(s, at, offsetof(skeep_block_iq4_xs, qs) + 16 * (size_t)g, skeep_values_iq4_nl, 128, out);
  const panel_int low = panel_right(b->head[1], 4 * g) & panel_all(15); /* as skeep_iq4_xs_scale */
  const panel_int high = panel_right(b->head[0], 16 + 2 * g) & panel_all(3);
  out->scale[0] = b->d * panel_value((panel_int)((panel_i32)(low | panel_left(high, 4)) - 32));
}
