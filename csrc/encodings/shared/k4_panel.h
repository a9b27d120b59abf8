/* The header that Q4_K and Q5_K share: d, dmin and the twelve bytes of scales and minimums are sixteen bytes. See
 * skeep_k4_scale. */
#ifndef SKEEP_SHARED_K4_PANEL_H
#define SKEEP_SHARED_K4_PANEL_H

SKEEP_INLINE void k4_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  panel_dwords(s, at, 0, 4, b->head);
  b->d = panel_half(b->head[0]);
  b->m = -panel_half(panel_right(b->head[0], 16));
}

SKEEP_INLINE void k4_scales(const struct panel_block *b, int g, struct panel_group *out) {
  panel_int scale, min;
  if (g < 4) {
    scale = panel_right(b->head[1], 8 * g) & panel_all(63);
    min = panel_right(b->head[2], 8 * g) & panel_all(63);
  } else { /* four bits, and the top two of the bytes above */
    const int at = 8 * (g - 4);
    scale = (panel_right(b->head[3], at) & panel_all(15)) | (panel_right(b->head[1], at + 2) & panel_all(48));
    min = (panel_right(b->head[3], at + 4) & panel_all(15)) | (panel_right(b->head[2], at + 2) & panel_all(48));
  }
  out->scale[0] = b->d * panel_value(scale);
  out->offset[0] = b->m * panel_value(min);
}

#endif
