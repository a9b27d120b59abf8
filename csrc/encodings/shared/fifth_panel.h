/* The codes of Q5_0 and Q5_1: sixteen bytes of nibbles, low ones first, and a dword with the fifth bits. */
#ifndef SKEEP_SHARED_FIFTH_PANEL_H
#define SKEEP_SHARED_FIFTH_PANEL_H

SKEEP_INLINE void fifth_read(const struct panel_source *s, size_t at, size_t field, panel_int fifth,
                             struct panel_group *out) {
  panel_u32 own = {0}; /* of each dword in its sixteen bytes, the first byte, four times */
  for (int r = 0; r < PANEL; r++) own[r] = (uint32_t)(r % 4) * 0x04040404u;
  panel_int raw[4];
  panel_dwords(s, at, field, 4, raw);
  for (int i = 0; i < 8; i++) {
    /* Byte j: the byte of fifth bits that holds the one of code 4i + j, and that bit alone. */
    const panel_u8 bit = (panel_u8)panel_all(i % 2 ? 0x80402010u : 0x08040201u);
    const panel_u8 bits = (panel_u8)panel_shuffle(fifth, (panel_int)own | panel_bytes((uint32_t)i / 2));
    const panel_int set = (panel_int)((bits & bit) == bit);
    out->code[i] = (panel_right(raw[i % 4], i / 4 * 4) & panel_bytes(15)) | (set & panel_bytes(16));
  }
}

#endif
