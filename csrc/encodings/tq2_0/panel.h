/* (code - 1) * d. See decode_portable.h. */

static const struct panel_form tq2_0_panel = {.bits = 2, .zero = 1, .halves = 1, PANEL_BLOCK(tq2_0)};

SKEEP_INLINE void tq2_0_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  b->d = panel_halves(s, at, offsetof(skeep_block_tq2_0, d));
}

SKEEP_INLINE void tq2_0_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                             struct panel_group *out) {
  if (g % 4 == 0) panel_dwords(s, at, offsetof(skeep_block_tq2_0, qs) + (size_t)g / 4 * 32, 8, b->raw);
  for (int i = 0; i < 8; i++) out->code[i] = panel_right(b->raw[i], g % 4 * 2) & panel_bytes(3);
  out->scale[0] = b->d;
}
