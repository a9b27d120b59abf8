/* d * code. Codes become unsigned by 128, the zero point. See decode_portable.h. */

static const struct panel_form q8_0_panel = {.bits = 8, .zero = 128, .halves = 1, PANEL_BLOCK(q8_0)};

SKEEP_INLINE void q8_0_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  b->d = panel_halves(s, at, offsetof(skeep_block_q8_0, d));
}

SKEEP_INLINE void q8_0_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  (void)g;
  panel_dwords(s, at, offsetof(skeep_block_q8_0, qs), 8, out->code);
  for (int i = 0; i < 8; i++) out->code[i] ^= panel_bytes(128);
  out->scale[0] = b->d;
}
