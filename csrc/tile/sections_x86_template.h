/* The multiplication of unpacked sections, for panel_sections_<set>.c, which includes tile/panel_<set>.h before. */
#ifndef SKEEP_TILE_SECTIONS_X86_H
#define SKEEP_TILE_SECTIONS_X86_H

SKEEP_INLINE void panel_block_of(const struct panel_section *q, const panel_int *cells, const char *x, float *y,
                                 size_t rows, const char *next, const int panels, const int tokens,
                                 const struct panel_form form) {
  const size_t cell = (size_t)CELL(form), apart = SKEEP_SECTION / 32 * cell;
  panel_float sum[PANELS_AT_ONCE][PANEL_TOKENS];
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++) sum[p][t] = panel_zero();
  for (size_t g = 0; g < q->groups; g++) {
    const panel_int *code[PANELS_AT_ONCE];
    for (int p = 0; p < panels; p++) code[p] = cells + (size_t)p * apart + g * cell;
    if (next) /* memory is read while processors multiply */
      for (int p = 0; p < panels; p++)
        for (size_t b = 0; b < q->next_group; b += 64)
          _mm_prefetch(next + (size_t)p * q->next_panel + g * q->next_group + b, _MM_HINT_T0);
    for (int h = 0; h < form.halves; h++) {
      panel_float scale[PANELS_AT_ONCE], offset[PANELS_AT_ONCE];
      for (int p = 0; p < panels; p++) {
        scale[p] = (panel_float)code[p][CELL_CODES(form) + h];
        if (form.offsets) offset[p] = (panel_float)code[p][CELL_CODES(form) + form.halves + h];
      }
      panel_add(code, 1, scale, offset, x + g / 4 * SKEEP_BYTES_a8, q->x_stride, g % 4, h, panels, tokens, form, sum);
    }
  }
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++)
      panel_end(y + t * q->y_stride + p * PANEL, rows - (size_t)p * PANEL, sum[p][t], q->first);
}

#if PANELS_AT_ONCE > 1
#define MORE PANEL_CASE(1, 5, CALL) PANEL_CASE(1, 6, CALL) PANEL_CASE(1, 7, CALL) PANEL_CASE(1, 8, CALL)
#else
#define MORE
#endif

SKEEP_INLINE void panel_section_of(const struct panel_section *q, const int halves, const int offsets,
                                   const int bits, const int zero) {
  const struct panel_form form = {.bits = bits, .zero = zero ? zero : q->zero, .halves = halves, .offsets = offsets};
  const size_t step = q->panels >= PANELS_AT_ONCE ? PANELS_AT_ONCE : 1;
  /* tokens whose sums fit into registers */
  const size_t most = panel_planes(bits) > 1 ? 3 : step < PANELS_AT_ONCE ? PANEL_TOKENS : 4;
  size_t parts = (q->tokens + most - 1) / most;
  for (size_t t = 0, tokens; t < q->tokens; t += tokens, parts--) {
    tokens = (q->tokens - t + parts - 1) / parts; /* nine tokens are three times three */
    const char *x = q->x + (int64_t)t * q->x_stride;
    for (size_t p = 0; p < q->panels; p += step) {
      const panel_int *cells = q->cells + p * (SKEEP_SECTION / 32) * (size_t)CELL(form);
      float *y = q->y + (int64_t)t * q->y_stride + p * PANEL;
      const size_t rows = q->rows - p * PANEL;
      const int reads = q->next && t == 0 && p * PANEL % SKEEP_FEED_PANEL == 0;
      const char *next = reads ? q->next + p * PANEL / SKEEP_FEED_PANEL * q->next_panel : NULL;
#define CALL(panels, tokens) panel_block_of(q, cells, x, y, rows, next, panels, tokens, form)
      PANEL_CASES(step, tokens, CALL, MORE)
#undef CALL
    }
  }
}

#define PANEL_SECTION(halves, offsets, bits, zero)                                \
  void PANEL_SECTION_NAME(halves##offsets##bits)(const struct panel_section *q) { \
    panel_section_of(q, halves, offsets, bits, zero);                             \
  }
PANEL_SECTIONS(PANEL_SECTION)

#endif
