/* Codes that stand for the sixteen numbers of a table, each plus zero: sixteen bytes of nibbles, low ones first. */
#ifndef SKEEP_SHARED_VALUE_PANEL_H
#define SKEEP_SHARED_VALUE_PANEL_H

#include "codebooks.h"

SKEEP_INLINE void value_read(const struct panel_source *s, size_t at, size_t field, const int8_t *values,
                             int zero, struct panel_group *out) {
  const panel_int table = (panel_int)((panel_u8)panel_table(values) + (panel_u8)panel_bytes((uint32_t)zero));
  panel_int raw[4];
  panel_dwords(s, at, field, 4, raw);
  for (int i = 0; i < 8; i++)
    out->code[i] = panel_shuffle(table, panel_right(raw[i % 4], i / 4 * 4) & panel_bytes(15));
}

#endif
