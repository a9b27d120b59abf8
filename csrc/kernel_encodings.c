/* The table of encodings, from encodings.def. */
#include "internal.h"

enum {
#define SKEEP_ENCODING(id, NAME, name, dtype, elements, bytes, flags, fields, feed) ROW_##NAME,
#include "encodings.def"
#undef SKEEP_ENCODING
  ROWS
};

static const skeep_encoding_info table[ROWS] = {
#define SKEEP_ENCODING(id, NAME, name, dtype, elements, bytes, flags, fields, feed) \
  [ROW_##NAME] = {id, dtype, elements, bytes, flags, 0, #NAME},
#include "encodings.def"
#undef SKEEP_ENCODING
};

/* 1 + row of each id, 0 where there is none; the compiler refuses an id that does not fit. */
static const uint8_t row_of[SKEEP_ENCODING_IDS] = {
#define SKEEP_ENCODING(id, NAME, name, dtype, elements, bytes, flags, fields, feed) [id] = ROW_##NAME + 1,
#include "encodings.def"
#undef SKEEP_ENCODING
};
_Static_assert(ROWS < 255, "rows are numbered in bytes");

size_t skeep_encoding_count(void) { return ROWS; }

skeep_status skeep_encoding_at(size_t row, skeep_encoding_info *info) {
  if (!info) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 1);
  if (row >= ROWS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  *info = table[row];
  return skeep_ok();
}

const skeep_encoding_info *skeep_encoding_find(uint32_t id) {
  if (id >= SKEEP_ENCODING_IDS || !row_of[id]) return NULL;
  return &table[row_of[id] - 1];
}
