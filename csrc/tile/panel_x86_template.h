/* The integer product for x86 of encodings whose codes are unsigned bytes (minus a zero point), with a scale, and
 * perhaps a minimum, for each 16 or 32 elements. The panel.h of an encoding reads a group of 32 elements of all rows of
 * a panel at once; it is written once for the vectors of both instruction sets. A 32-bit lane belongs to one row, so
 * that scales are read and multiplied for all rows at once, too, and sums never cross lanes.
 *
 * With one token, groups are multiplied as they are read. With more, a section of some panels is unpacked first. Both
 * give the same bits: their integer sums are exact and their floating-point steps are the same, in the same order.
 *
 * The including file defines PANELS_AT_ONCE (how many panels share the loads of activations), the vector types
 * panel_int and panel_float and their functions panel_fma, panel_pairs (sums of two 16-bit products), panel_shuffle,
 * panel_table, panel_half, panel_planes, panel_plane, panel_run, panel_multiply, panel_close and panel_prefetch. */
#ifndef SKEEP_TILE_PANEL_X86_H
#define SKEEP_TILE_PANEL_X86_H
#ifndef PANELS_AT_ONCE
#error "parameters: PANELS_AT_ONCE, panel_int, panel_float and their operations, of tile/panel_<set>.h"
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
SKEEP_INLINE panel_float panel_splat(float v) { return (panel_float){0} + v; }

struct panel_form {
  int bits;             /* of a code */
  int zero;             /* the code that means 0 */
  int halves;           /* 2: each 16 elements have a scale and an offset of their own; 1: all 32 share them */
  int offsets;          /* whether there are any */
  size_t groups, bytes; /* of a block */
};
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

/* Begins the blocks at row[r] + at. */
typedef void panel_open(const char *const *row, size_t at, struct panel_block *b);
/* Group g of them; groups are read in ascending order. */
typedef void panel_read(const char *const *row, size_t at, struct panel_block *b, int g, struct panel_group *out);

/* 32 bytes of each row as eight times a dword of each. */
SKEEP_INLINE void panel_load(const char *const *row, size_t at, panel_int *out) {
  rows_by_dword(row, at, out);
  rows_by_dword(row, at + 16, out + 4);
}

/* The codes of some panels against those of some tokens: a half of a group, or all of it. */
SKEEP_INLINE void panel_dot(const struct panel_group *const *w, const char *a, int64_t a_stride, const int half,
                            const int panels, const int tokens, const struct panel_form form,
                            panel_int s[PANELS_AT_ONCE][4]) {
  const int first = 4 * half, end = first + 8 / form.halves, run = panel_run(form.bits);
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++) s[p][t] = panel_all(0);
  for (int plane = 0; plane < panel_planes(form.bits); plane++)
    for (int i = first; i < end; i += run) {
      panel_int part[PANELS_AT_ONCE][4];
      for (int p = 0; p < panels; p++)
        for (int t = 0; t < tokens; t++) part[p][t] = panel_all(0);
      for (int j = i; j < i + run && j < end; j++) {
        panel_int codes[PANELS_AT_ONCE];
        for (int p = 0; p < panels; p++) codes[p] = panel_plane(w[p]->code[j], form.bits, plane);
        for (int t = 0; t < tokens; t++) {
          const panel_int four = broadcast4(a + t * a_stride + 4 * j);
          for (int p = 0; p < panels; p++) part[p][t] = panel_multiply(part[p][t], codes[p], four);
        }
      }
      for (int p = 0; p < panels; p++)
        for (int t = 0; t < tokens; t++) s[p][t] = panel_close(s[p][t], part[p][t], plane);
    }
}

/* Adds a half of a group, or all of it, to the sum of a section: s the codes' sums, a the block of activations, k
 * the group in it. */
SKEEP_INLINE panel_float panel_add(panel_float sum, panel_int s, const struct panel_group *w, const skeep_block_a8 *a,
                                   size_t k, const int half, const struct panel_form form) {
  /* The sums of the activation codes of 16 elements each, a pair; the factors choose one or both. */
  const panel_int pair = broadcast4((const char *)(a->sums + 2 * k));
  const uint32_t low = half ? 0 : 0xffffu, high = half || form.halves == 1 ? 0xffffu : 0;
#define FACTOR(v) panel_all((low & (uint32_t)(v)) | (high & (uint32_t)(v)) << 16)
  if (form.zero) s = (panel_int)((panel_i32)s + (panel_i32)panel_pairs(pair, FACTOR(-form.zero)));
  const panel_float d = panel_splat(a->d[k]);
  if (!form.offsets) return panel_fma(panel_value(s), w->scale[half] * d, sum);
  const panel_float codes = panel_value(panel_pairs(pair, FACTOR(1)));
#undef FACTOR
  return panel_fma(panel_fma(panel_value(s), w->scale[half], w->offset[half] * codes), d, sum);
}

SKEEP_INLINE void panel_one(const struct skeep_matmul_tile *tile, panel_open *open, panel_read *read,
                            const struct panel_form form) {
  const size_t row_bytes = tile->n / 32 / form.groups * form.bytes;
  for (size_t o = 0; o < tile->rows; o += PANEL) {
    const char *row[PANEL];
    panel_rows(tile, o, 0, row);
    size_t at = 0;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      const skeep_block_a8 *x = (const skeep_block_a8 *)tile->x + k / SKEEP_ELEMENTS_a8;
      panel_float sum = panel_splat(0);
      for (size_t g = 0; g < groups; g += form.groups, at += form.bytes) {
        struct panel_block b;
        if (form.groups > 1 || g % 4 == 0)
          panel_prefetch(tile, row, row_bytes, PANEL, at, 512, (form.groups > 1 ? 1 : 4) * form.bytes);
        open(row, at, &b);
#pragma GCC unroll 8
        for (size_t i = 0; i < form.groups; i++) {
          const skeep_block_a8 *a = x + (g + i) / 4;
          const size_t quarter = (g + i) % 4;
          struct panel_group w;
          const struct panel_group *const panels[PANELS_AT_ONCE] = {&w};
          read(row, at, &b, (int)i, &w);
          for (int h = 0; h < form.halves; h++) {
            panel_int s[PANELS_AT_ONCE][4];
            panel_dot(panels, (const char *)a->qs + 32 * quarter, 0, h, 1, 1, form, s);
            sum = panel_add(sum, s[0][0], &w, a, quarter, h, form);
          }
        }
      }
      panel_end(tile->y + o, skeep_min(PANEL, tile->rows - o), sum, k == 0);
    }
  }
}

/* A section of some panels, SKEEP_SECTION / 32 groups apart, against some tokens. */
SKEEP_INLINE void panel_section(const struct panel_group *cells, const struct section *q, const int panels,
                                const int tokens, const struct panel_form form) {
  panel_float sum[PANELS_AT_ONCE][4];
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++) sum[p][t] = panel_splat(0);
  for (size_t g = 0; g < q->groups; g++) {
    const char *block = q->x + g / 4 * SKEEP_BYTES_a8;
    const struct panel_group *w[PANELS_AT_ONCE];
    for (int p = 0; p < panels; p++) w[p] = cells + p * (SKEEP_SECTION / 32) + g;
    for (int h = 0; h < form.halves; h++) {
      panel_int s[PANELS_AT_ONCE][4];
      panel_dot(w, block + offsetof(skeep_block_a8, qs) + g % 4 * 32, q->x_stride, h, panels, tokens, form, s);
      for (int t = 0; t < tokens; t++) {
        const skeep_block_a8 *a = (const skeep_block_a8 *)(block + t * q->x_stride);
        for (int p = 0; p < panels; p++) sum[p][t] = panel_add(sum[p][t], s[p][t], w[p], a, g % 4, h, form);
      }
    }
  }
  for (int p = 0; p < panels; p++)
    for (int t = 0; t < tokens; t++)
      panel_end(q->y + t * q->y_stride + p * PANEL, skeep_min(PANEL, q->rows - (size_t)p * PANEL), sum[p][t],
                q->first);
}

/* CALL with constants: step panels, 1 or PANELS_AT_ONCE, and one to four tokens. */
#if PANELS_AT_ONCE > 1
#define PANEL_CASES(step, tokens, CALL)                                    \
  switch ((step) == 1 ? (tokens) : 4 + (tokens)) {                         \
    case 1: CALL(1, 1); break;                                             \
    case 2: CALL(1, 2); break;                                             \
    case 3: CALL(1, 3); break;                                             \
    case 4: CALL(1, 4); break;                                             \
    case 5: CALL(PANELS_AT_ONCE, 1); break;                                \
    case 6: CALL(PANELS_AT_ONCE, 2); break;                                \
    case 7: CALL(PANELS_AT_ONCE, 3); break;                                \
    default: CALL(PANELS_AT_ONCE, 4); break;                               \
  }
#else
#define PANEL_CASES(step, tokens, CALL)                                    \
  switch (tokens) {                                                        \
    case 1: CALL(1, 1); break;                                             \
    case 2: CALL(1, 2); break;                                             \
    case 3: CALL(1, 3); break;                                             \
    default: CALL(1, 4); break;                                            \
  }
#endif

SKEEP_INLINE void panel_many(const struct skeep_matmul_tile *tile, panel_open *open, panel_read *read,
                             const struct panel_form form) {
  const size_t row_bytes = tile->n / 32 / form.groups * form.bytes;
  const size_t section = SKEEP_SECTION / 32 / form.groups * form.bytes;
  struct panel_group *cells = tile->scratch;
  for (size_t o = 0; o < tile->rows; o += PANEL * PANELS) {
    const size_t panels = (skeep_min(PANEL * PANELS, tile->rows - o) + PANEL - 1) / PANEL;
    const size_t step = panels >= PANELS_AT_ONCE ? PANELS_AT_ONCE : 1;
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t groups = skeep_min(SKEEP_SECTION, tile->n - k) / 32;
      for (size_t p = 0; p < panels; p++) {
        const char *row[PANEL];
        panel_rows(tile, o + p * PANEL, 0, row);
        size_t at = k / 32 / form.groups * form.bytes;
        panel_prefetch(tile, row, row_bytes, PANEL * PANELS, at, section, section);
        struct panel_group *cell = cells + p * (SKEEP_SECTION / 32);
        for (size_t g = 0; g < groups; g += form.groups, at += form.bytes) {
          struct panel_block b;
          open(row, at, &b);
#pragma GCC unroll 8
          for (size_t i = 0; i < form.groups; i++) read(row, at, &b, (int)i, cell++);
        }
      }
      size_t parts = (tile->tokens + 3) / 4;
      for (size_t t = 0, tokens; t < tile->tokens; t += tokens, parts--) {
        tokens = (tile->tokens - t + parts - 1) / parts; /* nine tokens are three times three */
        for (size_t p = 0; p < panels; p += step) {
          const struct section s = {NULL,
                                    tile->x + (int64_t)t * tile->x_stride + k / SKEEP_ELEMENTS_a8 * SKEEP_BYTES_a8,
                                    tile->x_stride,
                                    tile->y + (int64_t)t * tile->y_stride + o + p * PANEL,
                                    tile->y_stride,
                                    tile->rows - o - p * PANEL,
                                    groups,
                                    k == 0};
          const struct panel_group *cell = cells + p * (SKEEP_SECTION / 32);
#define CALL(panels, tokens) panel_section(cell, &s, panels, tokens, form)
          PANEL_CASES(step, tokens, CALL)
#undef CALL
        }
      }
    }
  }
}

SKEEP_INLINE void panel_product(const struct skeep_matmul_tile *tile, panel_open *open, panel_read *read,
                                const struct panel_form form) {
  if (tile->tokens == 1) {
    panel_one(tile, open, read, form);
  } else {
    panel_many(tile, open, read, form);
  }
}

#endif
