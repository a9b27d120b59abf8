/* d * scale * (code - 4), with a scale for each 16 elements; the third bit of codes is in hmask. See
 * decode_portable.h. */

static const struct panel_form q3_k_panel = {.bits = 3, .zero = 4, .halves = 2, PANEL_BLOCK(q3_k)};

SKEEP_INLINE void q3_k_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  panel_dwords(s, at, offsetof(skeep_block_q3_k, scales), 3, b->head);
  b->d = panel_halves(s, at, offsetof(skeep_block_q3_k, d));
  panel_dwords(s, at, offsetof(skeep_block_q3_k, hmask), 8, b->raw + 8);
}

SKEEP_INLINE void q3_k_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  if (g % 4 == 0) panel_dwords(s, at, offsetof(skeep_block_q3_k, qs) + (size_t)g / 4 * 32, 8, b->raw);
  for (int i = 0; i < 8; i++) {
    const panel_int high = b->raw[8 + i], bit = g < 2 ? panel_left(high, 2 - g) : panel_right(high, g - 2);
    out->code[i] = (panel_right(b->raw[i], g % 4 * 2) & panel_bytes(3)) | (bit & panel_bytes(4));
  }
  for (int h = 0; h < 2; h++) { /* as skeep_q3_k_scale */
    const int i = 2 * g + h;
    const panel_int low = panel_right(b->head[i / 4 % 2], i % 4 * 8 + i / 8 * 4) & panel_all(15);
    const panel_int high = panel_right(b->head[2], i % 4 * 8 + i / 4 * 2) & panel_all(3);
    out->scale[h] = b->d * panel_value((panel_int)((panel_i32)(low | panel_left(high, 4)) - 32));
  }
}
