/* 2^(e - 128) * twice the value of the code, which is in [-12, 12]. See decode_portable.h. */
#include "encodings/shared/value_panel.h"

static const struct panel_form mxfp4_panel = {.bits = 5, .zero = 12, .halves = 1, PANEL_BLOCK(mxfp4)};

SKEEP_INLINE void mxfp4_open(const struct panel_source *s, size_t at, struct panel_block *b) {
  const panel_i32 e = (panel_i32)panel_byte(s, at, offsetof(skeep_block_mxfp4, e)); /* as skeep_e8m0_half */
  const panel_i32 subnormal = e < 2;
  b->d = (panel_float)(((e + 1) << 21 & subnormal) | ((e - 1) << 23 & ~subnormal));
}

SKEEP_INLINE void mxfp4_read(const struct panel_source *s, size_t at, struct panel_block *b, int g,
                             struct panel_group *out) {
  (void)g;
  value_read(s, at, offsetof(skeep_block_mxfp4, qs), skeep_values_e2m1, 12, out);
  out->scale[0] = b->d;
}
