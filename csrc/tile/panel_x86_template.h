/* The integer product for x86 of encodings whose codes are unsigned bytes (minus a zero point), with a scale, and
 * perhaps an offset, for each 16 or 32 elements. A 32-bit lane belongs to one row of a panel, so that scales are read and
 * multiplied for all rows at once, and sums never cross lanes.
 *
 * The panel.h of an encoding unpacks 32 elements of all rows of a panel at once. It is written once for the vectors of
 * both instruction sets, and for blocks as stored, where rows are read side by side and transposed, and in feed order,
 * where a column already has the same four bytes of all rows next to each other.
 *
 * A few tokens are multiplied as groups are unpacked. For more, a section of some panels is unpacked first. Both give
 * the same bits: their integer sums are exact and their floating-point steps are the same, in the same order.
 *
 * The including file defines PANEL (rows of a panel; lanes), PANELS (unpacked together), PANELS_AT_ONCE (panels that
 * share the loads of activations), PANEL_SIGNED, PANEL_SECTION_NAME and PANEL_SECTIONS (the functions for sections), the
 * vector types panel_int and panel_float, and the functions used below. */
#ifndef SKEEP_TILE_PANEL_X86_H
#define SKEEP_TILE_PANEL_X86_H
#if !defined(PANEL) || !defined(PANELS) || !defined(PANELS_AT_ONCE) || !defined(PANEL_SIGNED)
#error "parameters: PANEL, PANELS, PANELS_AT_ONCE, panel_int, panel_float and their operations"
#endif

typedef uint32_t panel_u32 __attribute__((vector_size(4 * PANEL)));
typedef int32_t panel_i32 __attribute__((vector_size(4 * PANEL)));
typedef uint8_t panel_u8 __attribute__((vector_size(4 * PANEL)));

SKEEP_INLINE panel_int panel_all(uint32_t v) { return (panel_int)((panel_u32){0} + v); }
SKEEP_INLINE panel_int panel_bytes(uint32_t v) { return panel_all(v * 0x01010101u); }
SKEEP_INLINE panel_int panel_right(panel_int v, int by) { return (panel_int)((panel_u32)v >> by); }
SKEEP_INLINE panel_int panel_left(panel_int v, int by) { return (panel_int)((panel_u32)v << by); }
SKEEP_INLINE panel_float panel_value(panel_int v) {
  return (panel_float)__builtin_convertvector((panel_i32)v, panel_float);
}
SKEEP_INLINE panel_float panel_zero(void) { return (panel_float){0}; }

struct panel_form {
  int bits;             /* of a code */
  int zero;             /* the code that means 0; 0 when there are offsets */
  int halves;           /* 2: each 16 elements have a scale and an offset of their own; 1: all 32 share them */
  int offsets;          /* whether there are any */
  size_t groups, bytes; /* of a block */
};
#define PANEL_TOKENS 8 /* at once, with one panel; four with several */
#define PANEL_BLOCK(form) .groups = SKEEP_ELEMENTS_##form / 32, .bytes = SKEEP_BYTES_##form

/* 32 elements of a panel: dword r of code[k] holds codes 4k..4k+3 of row r; element j has the value
 * scale[j / 16] * (code - zero) + offset[j / 16]. What the form does not have is not set and not read. */
struct panel_group {
  panel_int code[8];
  panel_float scale[2], offset[2];
};

/* What a form keeps of a block between its groups. */
struct panel_block {
  panel_int head[8], raw[24];
  panel_float d, m;
};

/* ---- where the rows of a panel are ---- */

struct panel_source {
  int feed;               /* a constant where this is inlined */
  const char *const *row; /* as stored: the rows */
  const char *panel;      /* in feed order: the columns, of SKEEP_FEED_PANEL rows */
  size_t lane;            /* the first of these rows that is meant, of PANEL */
};

/* Dwords of the blocks at `at` bytes of the rows, from a field on: dword r of out[k] is the k-th of row r. A single
 * dword, or three, are the only or the last ones of a block or have others behind them. */
SKEEP_INLINE void panel_dwords(const struct panel_source *s, size_t at, const size_t field, const int count,
                               panel_int *out) {
  if (s->feed) {
    const char *p = s->panel + SKEEP_FEED_PANEL * (at + field) + 4 * s->lane;
    for (int k = 0; k < count; k++) out[k] = panel_load(p + 4 * SKEEP_FEED_PANEL * k);
    return;
  }
  int k = 0;
  for (; k + 4 <= count; k += 4) rows_by_dword(s->row, at + field + 4 * (size_t)k, out + k);
  if (k == count) return;
  panel_int four[4]; /* sixteen bytes that end with the last dword, or begin with the first */
  const int back = field >= 12 ? 4 - (count - k) : 0;
  rows_by_dword(s->row, at + field + 4 * (size_t)k - 4 * (size_t)back, four);
  for (int i = 0; k < count; i++, k++) out[k] = four[back + i];
}

/* A half, and a byte, of each block. */
SKEEP_INLINE panel_float panel_halves(const struct panel_source *s, size_t at, const size_t field) {
  if (s->feed) return panel_load_half(s->panel + SKEEP_FEED_PANEL * (at + field) + 2 * s->lane);
  return rows_half(s->row, at + field);
}
SKEEP_INLINE panel_int panel_byte(const struct panel_source *s, size_t at, const size_t field) {
  if (s->feed) return panel_load_byte(s->panel + SKEEP_FEED_PANEL * (at + field) + s->lane);
  panel_int four[4];
  rows_by_dword(s->row, at + field, four);
  return four[0] & panel_all(255);
}

/* Begins the blocks that are `at` bytes into the rows. */
typedef void panel_open(const struct panel_source *s, size_t at, struct panel_block *b);
/* Group g of them; groups are read in ascending order. */
typedef void panel_read(const struct panel_source *s, size_t at, struct panel_block *b, int g, struct panel_group *out);

/* row[i] = row o + i of the weights, `at` bytes in. Rows past the last one repeat it and are not stored. */
SKEEP_INLINE void panel_rows(const struct skeep_matmul_tile *tile, size_t o, size_t at, const char **row) {
  for (size_t i = 0; i < PANEL; i++)
    row[i] = tile->w + (int64_t)skeep_min(o + i, tile->rows - 1) * tile->w_stride + at;
}

/* Prefetches `bytes` bytes of each row that lie `step` behind the reader, who is `at` bytes into rows of row_bytes;
 * behind the end of a row, those of the row `rows` further. Any address may be prefetched. */
SKEEP_INLINE void panel_prefetch(const struct skeep_matmul_tile *tile, const char *const *row, size_t row_bytes,
                                 size_t rows, size_t at, size_t step, size_t bytes) {
  const int64_t ahead = at + step < row_bytes ? (int64_t)step
                                              : (int64_t)rows * tile->w_stride + (int64_t)step - (int64_t)row_bytes;
  for (size_t i = 0; i < PANEL; i++)
    for (size_t b = 0; b < bytes; b += 64) _mm_prefetch(row[i] + (int64_t)at + ahead + (int64_t)b, _MM_HINT_T0);
}

/* ---- a group ---- */

/* The sums of the activation codes of 16 elements each, a pair in each lane, times -zero or 1: those of a half of a
 * group, or of all of it. */
SKEEP_INLINE panel_int panel_sums(const skeep_block_a8 *a, size_t quarter, const int half, const int factor,
                                  const struct panel_form form) {
  const uint32_t low = half ? 0 : 0xffffu, high = half || form.halves == 1 ? 0xffffu : 0;
  const panel_int pair = panel_broadcast((const char *)(a->sums + 2 * quarter));
  return panel_pairs(pair, panel_all((low & (uint32_t)factor) | (high & (uint32_t)factor) << 16));
}

/* Adds a half of a group of some panels, or all of it, times some tokens, to sums. code[p], scale[p] and offset[p] are
 * panel p's; token t's activations are t * stride bytes behind a. in_cell: code has the planes of a cell, not codes. */
SKEEP_INLINE void panel_add(const panel_int *const *code, const int in_cell, const panel_float *scale,
                            const panel_float *offset, const char *a, int64_t stride, size_t quarter, const int half,
                            const int panels, const int tokens, const struct panel_form form,
                            panel_float sum[PANELS_AT_ONCE][PANEL_TOKENS]) {
  const int in_bytes = !in_cell && PANEL_SIGNED && form.bits == 8; /* code - zero is a signed byte */
  const int first = 4 * half, end = first + 8 / form.halves, run = panel_run(form.bits);
  const char *codes = a + offsetof(skeep_block_a8, qs) + 32 * quarter;
  panel_int s[PANELS_AT_ONCE][PANEL_TOKENS];
  for (int t = 0; t < tokens; t++) {
    const panel_int begin = form.offsets || in_bytes
                                ? panel_all(0)
                                : panel_sums((const skeep_block_a8 *)(a + t * stride), quarter, half, -form.zero, form);
    for (int p = 0; p < panels; p++) s[p][t] = begin;
  }
#if PANEL_SIGNED
  if (in_bytes)
    for (int j = first; j < end; j++)
      for (int t = 0; t < tokens; t++) {
        const panel_int four = panel_broadcast(codes + t * stride + 4 * j);
        for (int p = 0; p < panels; p++) s[p][t] = panel_multiply_signed(s[p][t], code[p][j] ^ panel_bytes(128), four);
      }
#endif
  const int planes = panel_planes(form.bits);
  for (int i = in_bytes ? end : first; i < end; i += run) {
    panel_int part[2][PANELS_AT_ONCE][PANEL_TOKENS];
    for (int l = 0; l < planes; l++)
      for (int p = 0; p < panels; p++)
        for (int t = 0; t < tokens; t++) part[l][p][t] = panel_begin(s[p][t]);
    for (int j = i; j < i + run && j < end; j++) {
      panel_int w[2][PANELS_AT_ONCE];
      for (int l = 0; l < planes; l++)
        for (int p = 0; p < panels; p++)
          w[l][p] = in_cell ? code[p][8 * l + j] : panel_plane(code[p][j], form.bits, l);
      for (int t = 0; t < tokens; t++) {
        const panel_int four = panel_broadcast(codes + t * stride + 4 * j);
        for (int l = 0; l < planes; l++)
          for (int p = 0; p < panels; p++) part[l][p][t] = panel_multiply(part[l][p][t], w[l][p], four);
      }
    }
    for (int l = 0; l < planes; l++)
      for (int p = 0; p < panels; p++)
        for (int t = 0; t < tokens; t++) s[p][t] = panel_close(s[p][t], part[l][p][t], l);
  }
  for (int t = 0; t < tokens; t++) {
    const skeep_block_a8 *x = (const skeep_block_a8 *)(a + t * stride);
    const panel_float d = (panel_float)panel_broadcast((const char *)(x->d + quarter));
    if (!form.offsets) {
      for (int p = 0; p < panels; p++) sum[p][t] = panel_fma(panel_value(s[p][t]), scale[p] * d, sum[p][t]);
    } else {
      const panel_float all = panel_value(panel_sums(x, quarter, half, 1, form));
      for (int p = 0; p < panels; p++)
        sum[p][t] = panel_fma(panel_fma(panel_value(s[p][t]), scale[p], offset[p] * all), d, sum[p][t]);
    }
  }
}

/* ---- a few tokens: multiplied as weights are unpacked ---- */

/* Prefetches the share of group i of the lines of a column. */
SKEEP_INLINE void panel_prefetch_column(const char *column, size_t i, const struct panel_form form) {
  const size_t bytes = SKEEP_FEED_PANEL * form.bytes / form.groups;
  for (size_t b = i * bytes / 64 * 64; b < (i + 1) * bytes / 64 * 64 || (i + 1 == form.groups && b < (i + 1) * bytes); b += 64)
    _mm_prefetch(column + b, _MM_HINT_T0);
}

/* The panels from row o on that are read side by side. */
SKEEP_INLINE void panel_few_rows(const struct skeep_matmul_tile *tile, size_t o, panel_open *open, panel_read *read,
                                 const struct panel_form form, const int feed, const int panels, const int tokens) {
  enum { SIDES = SKEEP_FEED_PANEL / PANEL }; /* parts of a column that have the lanes of a vector */
  const int vectors = feed ? SIDES * panels : 1;
  const size_t row_bytes = tile->n / 32 / form.groups * form.bytes;
  const char *row[PANEL], *column = tile->w + (int64_t)o * tile->w_stride;
  if (!feed) panel_rows(tile, o, 0, row);
  size_t at = 0;
  for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
    const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
    const char *x = tile->x + k / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8;
    panel_float sum[2 * SIDES][PANELS_AT_ONCE][PANEL_TOKENS];
    for (int v = 0; v < vectors; v++)
      for (int t = 0; t < tokens; t++) sum[v][0][t] = panel_zero();
    for (size_t g = 0; g < groups; g += form.groups, at += form.bytes) {
      if (!feed) {
        if (form.groups > 1 || g % 4 == 0)
          panel_prefetch(tile, row, row_bytes, PANEL, at, 512, (form.groups > 1 ? 1 : 4) * form.bytes);
      }
      for (int v = 0; v < vectors; v++) {
        const struct panel_source source = {feed, row, column + SKEEP_FEED_PANEL * (size_t)(v / SIDES) * row_bytes,
                                            (size_t)(v % SIDES) * PANEL};
        struct panel_block b;
        open(&source, at, &b);
#pragma GCC unroll 8
        for (size_t i = 0; i < form.groups; i++) {
          const size_t group = g + i;
          struct panel_group w;
          const panel_int *const code[PANELS_AT_ONCE] = {w.code};
          if (feed && tile->ahead && v % SIDES == 0) /* a share at each group, since the processor queues a few only */
            panel_prefetch_column(source.panel + SKEEP_FEED_PANEL * at + tile->ahead, i, form);
          read(&source, at, &b, (int)i, &w);
          for (int h = 0; h < form.halves; h++)
            panel_add(code, 0, w.scale + h, w.offset + h, x + group / 4 * SKEEP_BYTES_a8, tile->x_stride, group % 4, h, 1,
                      tokens, form, sum[v]);
        }
      }
    }
    for (int v = 0; v < vectors; v++)
      for (int t = 0; t < tokens && (size_t)t < tile->tokens; t++)
        panel_end(tile->y + t * tile->y_stride + o + (size_t)v * PANEL, tile->rows - o - (size_t)v * PANEL, sum[v][0][t],
                  k == 0);
  }
}

SKEEP_INLINE void panel_few(const struct skeep_matmul_tile *tile, panel_open *open, panel_read *read,
                            const struct panel_form form, const int feed, const int tokens) {
  const size_t rows = feed ? SKEEP_FEED_PANEL : PANEL;
  size_t o = 0;
  if (feed && tokens == 1 && tile->panels > 1)
    for (; o + 2 * rows <= tile->rows; o += 2 * rows) panel_few_rows(tile, o, open, read, form, feed, 2, tokens);
  for (; o < tile->rows; o += rows) panel_few_rows(tile, o, open, read, form, feed, 1, tokens);
}

/* ---- many tokens: a section of some panels is unpacked, then multiplied ---- */

/* CALL with constants: 1 or PANELS_AT_ONCE panels, `step`, and one to four tokens; and the cases `more`. */
#define PANEL_CASE(panels, tokens, CALL) \
  case 16 * (panels) + (tokens): CALL(panels, tokens); break;
#define PANEL_TOKEN_CASES(panels, CALL)                             \
  PANEL_CASE(panels, 1, CALL) PANEL_CASE(panels, 2, CALL)           \
  PANEL_CASE(panels, 3, CALL) PANEL_CASE(panels, 4, CALL)
#if PANELS_AT_ONCE > 1
#define PANEL_CASES(step, tokens, CALL, more) \
  switch (16 * (step) + (tokens)) { PANEL_TOKEN_CASES(1, CALL) PANEL_TOKEN_CASES(PANELS_AT_ONCE, CALL) more }
#else
#define PANEL_CASES(step, tokens, CALL, more) \
  switch (16 * (step) + (tokens)) { PANEL_TOKEN_CASES(1, CALL) more }
#endif

/* An unpacked group: the planes of its codes, then scales and offsets, as many as the form has. */
#define CELL_CODES(form) (8 * panel_planes((form).bits))
#define CELL(form) (CELL_CODES(form) + (form).halves * (1 + (form).offsets))

/* A section of some panels and of all tokens. */
struct panel_section {
  const panel_int *cells; /* of a panel, SKEEP_SECTION / 32 of them; the panels' follow each other */
  size_t panels, tokens, groups;
  const char *x; /* at the section's first block */
  int64_t x_stride, y_stride;
  float *y;
  size_t rows;
  int zero, first;
  const char *next;                /* in feed order: of the first panel, what is unpacked next; else NULL */
  size_t next_panel, next_group;   /* bytes from one panel to the next, and of a group */
};

/* Multiplies a section. One function for all encodings with the same kind of cells and, with AVX2, of the same class of
 * code widths; with halves and without offsets for each zero, which is then a constant. PANEL_SECTIONS lists them. They
 * are in a unit of their own, panel_sections_<set>.c. */
typedef void panel_section_function(const struct panel_section *q);
#define PANEL_SECTION(halves, offsets, bits, zero) panel_section_function PANEL_SECTION_NAME(halves##offsets##bits);
PANEL_SECTIONS(PANEL_SECTION)
#undef PANEL_SECTION

SKEEP_INLINE panel_section_function *panel_section_for(const struct panel_form form) {
  const int constant = form.halves == 2 && !form.offsets;
  const int bits = !constant && panel_run(form.bits) == 8 && panel_planes(form.bits) == 1 ? 4 : form.bits;
#define PANEL_SECTION(halves_, offsets_, bits_, zero_)                                                           \
  if (form.halves == halves_ && form.offsets == offsets_ && bits == bits_ && (!zero_ || form.zero == zero_)) \
    return PANEL_SECTION_NAME(halves_##offsets_##bits_);
  PANEL_SECTIONS(PANEL_SECTION)
#undef PANEL_SECTION
  return NULL; /* the list lacks a kind */
}

SKEEP_INLINE void panel_many(const struct skeep_matmul_tile *tile, panel_open *open, panel_read *read,
                             const struct panel_form form, const int feed) {
  const size_t at_once = feed && tile->tokens <= PANEL_TOKENS ? PANELS / PANELS_AT_ONCE : PANELS;
  const size_t row_bytes = tile->n / 32 / form.groups * form.bytes;
  const size_t section = SKEEP_SECTION / 32 / form.groups * form.bytes;
  for (size_t o = 0; o < tile->rows; o += PANEL * at_once) {
    const size_t panels = (skeep_min(PANEL * at_once, tile->rows - o) + PANEL - 1) / PANEL;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      for (size_t p = 0; p < panels; p++) {
        const size_t at_row = o + p * PANEL, lane = feed ? at_row % SKEEP_FEED_PANEL : 0;
        const char *row[PANEL];
        const struct panel_source source = {feed, row, tile->w + (int64_t)(at_row - lane) * tile->w_stride, lane};
        size_t at = k / 32 / form.groups * form.bytes;
        if (!feed) {
          panel_rows(tile, at_row, 0, row);
          panel_prefetch(tile, row, row_bytes, PANEL * at_once, at, section, section);
        }
        panel_int *cell = (panel_int *)tile->scratch + p * (SKEEP_SECTION / 32) * (size_t)CELL(form);
        for (size_t g = 0; g < groups; g += form.groups, at += form.bytes) {
          struct panel_block b;
          open(&source, at, &b);
#pragma GCC unroll 8
          for (size_t i = 0; i < form.groups; i++, cell += CELL(form)) {
            struct panel_group w;
            read(&source, at, &b, (int)i, &w);
            for (int j = 0; j < CELL_CODES(form); j++) cell[j] = panel_plane(w.code[j % 8], form.bits, j / 8);
            for (int h = 0; h < form.halves; h++) {
              cell[CELL_CODES(form) + h] = (panel_int)w.scale[h];
              if (form.offsets) cell[CELL_CODES(form) + form.halves + h] = (panel_int)w.offset[h];
            }
          }
        }
      }
      const size_t at = k + SKEEP_SECTION < tile->n ? SKEEP_FEED_PANEL * (k / 32 / form.groups * form.bytes + section) : 0;
      const int64_t row = (int64_t)(at ? o : o + PANEL * at_once);
      const struct panel_section q = {.next = feed && tile->ahead ? tile->w + row * tile->w_stride + at : NULL,
                                      .next_panel = SKEEP_FEED_PANEL * row_bytes,
                                      .next_group = SKEEP_FEED_PANEL * form.bytes / form.groups,
                                      .cells = tile->scratch,
                                      .panels = panels,
                                      .tokens = tile->tokens,
                                      .groups = groups,
                                      .x = tile->x + k / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8,
                                      .x_stride = tile->x_stride,
                                      .y_stride = tile->y_stride,
                                      .y = tile->y + o,
                                      .rows = tile->rows - o,
                                      .zero = form.zero,
                                      .first = k == 0};
      panel_section_for(form)(&q);
    }
  }
}

/* As many tokens as there is a function for: the last one is repeated in scratch, which has room for them. */
SKEEP_INLINE struct skeep_matmul_tile panel_padded(const struct skeep_matmul_tile *tile, size_t tokens) {
  struct skeep_matmul_tile padded = *tile;
  const size_t bytes = (tile->n + SKEEP_ELEMENTS_a8 - 1) / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8;
  if (tile->tokens == tokens) return padded;
  for (size_t t = 0; t < tokens; t++)
    memcpy((char *)tile->scratch + t * bytes, tile->x + (int64_t)skeep_min(t, tile->tokens - 1) * tile->x_stride, bytes);
  padded.x = tile->scratch;
  padded.x_stride = (int64_t)bytes;
  return padded;
}

SKEEP_INLINE void panel_product(const struct skeep_matmul_tile *tile, panel_open *open, panel_read *read,
                                const struct panel_form form, const int feed) {
  const size_t row = (tile->n / SKEEP_ELEMENTS_a8 + 1) * SKEEP_BYTES_a8; /* of activations, at most */
  const size_t few = feed ? panel_few_tokens(form.groups) : 1;
  if (tile->tokens > few || (tile->tokens > 1 && row > SKEEP_MATMUL_SCRATCH / few)) {
    panel_many(tile, open, read, form, feed);
  } else if (tile->tokens == 1) {
    panel_few(tile, open, read, form, feed, 1);
#define UP_TO(count)                                                                  \
  } else if (count <= few && tile->tokens <= count) {                                 \
    const struct skeep_matmul_tile padded = panel_padded(tile, count);                \
    panel_few(&padded, open, read, form, feed, count);
  UP_TO(2) UP_TO(4) UP_TO(8)
#undef UP_TO
  }
}

#endif
