/* d * scale * code - dmin * min, with scale and min for each 16 elements. See decode_portable.h. */

static const struct panel_form q2_k_panel = {.bits = 2, .halves = 2, .offsets = 1, PANEL_BLOCK(q2_k)};

SKEEP_INLINE void q2_k_open(const char *const *row, size_t at, struct panel_block *b) {
  rows_by_dword(row, at + offsetof(skeep_block_q2_k, scales), b->head);
  rows_by_dword(row, at + sizeof(skeep_block_q2_k) - 16, b->head + 4); /* its last dword is d and dmin */
  b->d = panel_half(b->head[7]);
  b->m = -panel_half(panel_right(b->head[7], 16));
}

SKEEP_INLINE void q2_k_read(const char *const *row, size_t at, struct panel_block *b, int g, struct panel_group *out) {
  if (g % 4 == 0) panel_load(row, at + offsetof(skeep_block_q2_k, qs) + (size_t)g / 4 * 32, b->raw);
  for (int i = 0; i < 8; i++) out->code[i] = panel_right(b->raw[i], g % 4 * 2) & panel_bytes(3);
  for (int h = 0; h < 2; h++) {
    const panel_int byte = panel_right(b->head[(2 * g + h) / 4], (2 * g + h) % 4 * 8);
    out->scale[h] = b->d * panel_value(byte & panel_all(15));
    out->offset[h] = b->m * panel_value(panel_right(byte, 4) & panel_all(15));
  }
}
