/* The feed order: how a column interleaves the blocks of a panel's rows, from encodings.def. */
#include "internal.h"

enum {
#define SKEEP_ENCODING(id, NAME, name, dtype, elements, bytes, flags, fields, feed) ID_##name = id,
#include "encodings.def"
#undef SKEEP_ENCODING
};

static const struct skeep_run table[SKEEP_ENCODING_IDS][SKEEP_FEED_RUNS] = {
#define SKEEP_FEED(name, ...) [ID_##name] = {__VA_ARGS__},
#include "generated/feed_runs.h"
#undef SKEEP_FEED
};

const struct skeep_run *skeep_feed_runs(uint32_t encoding) {
  return encoding < SKEEP_ENCODING_IDS && table[encoding][0].bytes ? table[encoding] : NULL;
}

int skeep_order_is_feed(skeep_order o) {
  const skeep_order feed = SKEEP_ORDER_FEED;
  return !memcmp(&o, &feed, sizeof o);
}

/* Calls MOVE(byte of the column, byte of the block) for each unit of row r; size is a constant in each branch. */
#define EACH_UNIT(MOVE)                                                             \
  for (int i = 0; i < SKEEP_FEED_RUNS; i++) {                                       \
    const size_t at = runs[i].at, end = at + runs[i].bytes, unit = runs[i].unit;    \
    const size_t first = SKEEP_FEED_PANEL * at + r * unit;                          \
    if (unit == 4) {                                                                \
      for (size_t j = at; j < end; j += 4) MOVE(first + (j - at) * SKEEP_FEED_PANEL, j, 4); \
    } else {                                                                        \
      for (size_t j = at; j < end; j += unit) MOVE(first + (j - at) * SKEEP_FEED_PANEL, j, unit); \
    }                                                                               \
  }

void skeep_feed_read(const struct skeep_run *runs, const char *column, size_t r, char *block) {
#define MOVE(in_column, in_block, size) memcpy(block + (in_block), column + (in_column), size)
  EACH_UNIT(MOVE)
#undef MOVE
}

void skeep_feed_write(const struct skeep_run *runs, char *column, size_t r, const char *block) {
#define MOVE(in_column, in_block, size) memcpy(column + (in_column), block + (in_block), size)
  EACH_UNIT(MOVE)
#undef MOVE
}
