/* d * scale * (code - 32), with a scale for each 16 elements. See decode_portable.h. */

static const struct panel_form q6_k_panel = {.bits = 6, .zero = 32, .halves = 2, PANEL_BLOCK(q6_k)};

SKEEP_INLINE void q6_k_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  panel_dwords(s, at, offsetof(skeep_block_q6_k, scales), 4, b->head);
  b->d = panel_halves(s, at, offsetof(skeep_block_q6_k, d));
}

SKEEP_INLINE void q6_k_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                            struct panel_group *out) {
  const size_t half = (size_t)g / 4;
  const int quarter = g % 4, low = quarter % 2 * 8;
  if (quarter == 0) panel_dwords(s, at, offsetof(skeep_block_q6_k, qh) + 32 * half, 8, b->raw + 16);
  if (quarter < 2) panel_dwords(s, at, offsetof(skeep_block_q6_k, ql) + 64 * half + 4 * (size_t)low, 8, b->raw + low);
  for (int i = 0; i < 8; i++) {
    const panel_int high = b->raw[16 + i];
    const panel_int two = quarter < 2 ? panel_left(high, 4 - 2 * quarter) : panel_right(high, 2 * quarter - 4);
    out->code[i] = (panel_right(b->raw[low + i], quarter / 2 * 4) & panel_bytes(15)) | (two & panel_bytes(48));
  }
  for (int h = 0; h < 2; h++) {
    const int i = 2 * g + h; /* a signed byte */
    const panel_int scale = (panel_int)((panel_i32)panel_left(b->head[i / 4], 24 - i % 4 * 8) >> 24);
    out->scale[h] = b->d * panel_value(scale);
  }
}
