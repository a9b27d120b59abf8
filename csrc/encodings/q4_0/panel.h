/* d * (code - 8); low nibbles are the first half of a group. See decode_portable.h. */

static const struct panel_form q4_0_panel = {.bits = 4, .zero = 8, .halves = 1, PANEL_BLOCK(q4_0)};

SKEEP_INLINE void q4_0_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  b->d = panel_halves(s, at, offsetof(skeep_block_q4_0, d));
}

SKEEP_INLINE void q4_0_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  (void)g;
  panel_dwords(s, at, offsetof(skeep_block_q4_0, qs), 4, b->raw);
  for (int i = 0; i < 8; i++) out->code[i] = panel_right(b->raw[i % 4], i / 4 * 4) & panel_bytes(15);
  out->scale[0] = b->d;
}
