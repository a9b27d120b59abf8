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

/* Four dwords of each of four rows, at the same place of their blocks, are a square in the column, whose rows are
 * SKEEP_FEED_PANEL dwords apart. It is transposed in registers. */
typedef uint32_t quad __attribute__((vector_size(16)));
#if defined(__clang__)
#define PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (quad){i, j, k, l})
#endif
static inline quad load(const char *p) {
  quad v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void transpose(const quad in[4], quad out[4]) {
  const quad a = PICK(in[0], in[1], 0, 4, 1, 5), b = PICK(in[2], in[3], 0, 4, 1, 5);
  const quad c = PICK(in[0], in[1], 2, 6, 3, 7), d = PICK(in[2], in[3], 2, 6, 3, 7);
  out[0] = PICK(a, b, 0, 1, 4, 5);
  out[1] = PICK(a, b, 2, 3, 6, 7);
  out[2] = PICK(c, d, 0, 1, 4, 5);
  out[3] = PICK(c, d, 2, 3, 6, 7);
}

/* Calls SQUARE(first byte of the column, first row, byte of the blocks) for squares of dwords, UNIT as in EACH_UNIT for
 * the rest. */
#define EACH_SQUARE(SQUARE, UNIT)                                                                   \
  for (int i = 0; i < SKEEP_FEED_RUNS; i++) {                                                       \
    const size_t at = runs[i].at, end = at + runs[i].bytes, unit = runs[i].unit;                    \
    size_t j = at;                                                                                  \
    for (; unit == 4 && j + 16 <= end; j += 16)                                                     \
      for (size_t r = 0; r < SKEEP_FEED_PANEL; r += 4) SQUARE(SKEEP_FEED_PANEL * j + 4 * r, r, j);  \
    for (; j < end; j += unit)                                                                      \
      for (size_t r = 0; r < SKEEP_FEED_PANEL; r++) UNIT(SKEEP_FEED_PANEL * j + unit * r, r, j, unit); \
  }

void skeep_feed_read_all(const struct skeep_run *runs, const char *column, char *const block[SKEEP_FEED_PANEL]) {
#define SQUARE(in_column, r, in_block)                                                      \
  {                                                                                         \
    quad in[4], out[4];                                                                     \
    for (int k = 0; k < 4; k++) in[k] = load(column + (in_column) + 4 * SKEEP_FEED_PANEL * k); \
    transpose(in, out);                                                                     \
    for (int k = 0; k < 4; k++) memcpy(block[(r) + (size_t)k] + (in_block), &out[k], sizeof out[k]); \
  }
#define UNIT(in_column, r, in_block, size)             \
  {                                                    \
    const char *from = column + (in_column);           \
    char *to = block[r] + (in_block);                  \
    for (size_t b = 0; b < (size); b++) to[b] = from[b]; \
  }
  EACH_SQUARE(SQUARE, UNIT)
#undef SQUARE
#undef UNIT
}

void skeep_feed_write_all(const struct skeep_run *runs, char *column, char *const block[SKEEP_FEED_PANEL]) {
#define SQUARE(in_column, r, in_block)                                                   \
  {                                                                                      \
    quad in[4], out[4];                                                                  \
    for (size_t k = 0; k < 4; k++) in[k] = load(block[(r) + k] + (in_block));            \
    transpose(in, out);                                                                  \
    for (int k = 0; k < 4; k++) memcpy(column + (in_column) + 4 * SKEEP_FEED_PANEL * k, &out[k], sizeof out[k]); \
  }
#define UNIT(in_column, r, in_block, size)             \
  {                                                    \
    const char *from = block[r] + (in_block);          \
    char *to = column + (in_column);                   \
    for (size_t b = 0; b < (size); b++) to[b] = from[b]; \
  }
  EACH_SQUARE(SQUARE, UNIT)
#undef SQUARE
#undef UNIT
}
