/* d * scale * code - dmin * min, with scale and min for each 16 elements. See decode_portable.h. */

static const struct panel_form q2_k_panel = {.bits = 2, .halves = 2, .offsets = 1, PANEL_BLOCK(q2_k)};

SKEEP_INLINE void q2_k_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  panel_dwords(s, at, offsetof(skeep_block_q2_k, scales), 4, b->head);
  panel_dwords(s, at, offsetof(skeep_block_q2_k, d), 1, b->head + 4); /* and dmin */
  b->d = panel_half(b->head[4]);
  b->m = -panel_half(panel_right(b->head[4], 16));
}

SKEEP_INLINE void q2_k_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  if (g % 4 == 0) panel_dwords(s, at, offsetof(skeep_block_q2_k, qs) + (size_t)g / 4 * 32, 8, b->raw);
  for (int i = 0; i < 8; i++) out->code[i] = panel_right(b->raw[i], g % 4 * 2) & panel_bytes(3);
  for (int h = 0; h < 2; h++) {
    const panel_int byte = panel_right(b->head[(2 * g + h) / 4], (2 * g + h) % 4 * 8);
    out->scale[h] = b->d * panel_value(byte & panel_all(15));
    out->offset[h] = b->m * panel_value(panel_right(byte, 4) & panel_all(15));
  }
}
