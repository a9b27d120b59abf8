/* code * d + m. See decode_portable.h. */

static const struct panel_form q4_1_panel = {.bits = 4, .halves = 1, .offsets = 1, PANEL_BLOCK(q4_1)};

SKEEP_INLINE void q4_1_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  panel_dwords(s, at, offsetof(skeep_block_q4_1, d), 1, b->head);
  b->d = panel_half(b->head[0]);
  b->m = panel_half(panel_right(b->head[0], 16));
}

SKEEP_INLINE void q4_1_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  (void)g;
  panel_dwords(s, at, offsetof(skeep_block_q4_1, qs), 4, b->raw);
  for (int i = 0; i < 8; i++) out->code[i] = panel_right(b->raw[i % 4], i / 4 * 4) & panel_bytes(15);
  out->scale[0] = b->d;
  out->offset[0] = b->m;
}
