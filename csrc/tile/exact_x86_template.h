/* The exact product for x86. Activations are F32. Weights are F32, are converted to F32 when loaded, or are decoded to
 * F32 a section of some rows at a time. The rows of both run along the inner axis, so nothing is interleaved. The sums
 * of four rows and EXACT_TOKENS tokens, one vector each, stay in registers; a single token is multiplied with eight
 * rows at once.
 *
 * The including file defines EXACT_LANES, EXACT_TOKENS, the vector type exact_vec and its functions exact_zero,
 * exact_fma, exact_f32 (loads floats) and exact_sum4 (the sums of four vectors, whose lanes are added as a tree). */
#ifndef SKEEP_TILE_EXACT_X86_H
#define SKEEP_TILE_EXACT_X86_H
#if !defined(EXACT_LANES) || !defined(EXACT_TOKENS)
#error "parameters: EXACT_LANES, EXACT_TOKENS, exact_vec and its operations, of tile/exact_<set>.h"
#endif

/* EXACT_LANES consecutive weights at p, or the first `count` of them and zeros. */
typedef exact_vec exact_load(const char *p, size_t count);

/* Up to this number of tokens, loading 16-bit weights again for each few tokens is faster than converting them in
 * scratch once. */
#define EXACT_IN_PLACE 16

/* The rows of weights: as stored, or decoded in scratch. */
struct exact_rows {
  const char *row; /* at the section */
  int64_t stride;
  size_t element; /* bytes */
};

/* A section of `rows` rows times `tokens` tokens; both are constants where it is inlined. Only the first `stored` rows
 * are stored; the others repeat the last of them. */
SKEEP_INLINE void exact_block(const struct exact_rows *w, const char *x, int64_t x_stride, float *y, int64_t y_stride,
                              size_t count, int first, size_t stored, const int rows, const int tokens,
                              exact_load *load) {
  exact_vec sum[8][EXACT_TOKENS];
  const char *row[8];
  for (int i = 0; i < rows; i++) {
    row[i] = w->row + (int64_t)skeep_min((size_t)i, stored - 1) * w->stride;
    for (int t = 0; t < tokens; t++) sum[i][t] = exact_zero();
  }
#define STEP(k, n)                                                                                       \
  {                                                                                                      \
    exact_vec a[EXACT_TOKENS];                                                                           \
    for (int t = 0; t < tokens; t++) a[t] = exact_f32(x + t * x_stride + 4 * (k), n);                    \
    for (int i = 0; i < rows; i++) {                                                                     \
      const exact_vec v = load(row[i] + (k)*w->element, n);                                              \
      for (int t = 0; t < tokens; t++) sum[i][t] = exact_fma(v, a[t], sum[i][t]);                        \
    }                                                                                                    \
  }
  size_t k = 0;
  for (; k + EXACT_LANES <= count; k += EXACT_LANES) {
    if (tokens == 1 && k % (64 / w->element) == 0) /* limited by memory: prefetch a cache line of each row */
      for (int i = 0; i < rows; i++) _mm_prefetch(row[i] + k * w->element + 1024, _MM_HINT_T0);
    STEP(k, EXACT_LANES)
  }
  if (k < count) STEP(k, count - k)
#undef STEP
  for (int i = 0; i < rows; i += 4)
    for (int t = 0; t < tokens; t++) {
      const __m128 s = exact_sum4(sum[i][t], sum[i + 1][t], sum[i + 2][t], sum[i + 3][t]);
      float *to = y + t * y_stride + i;
      if ((size_t)i + 4 <= stored) {
        _mm_storeu_ps(to, first ? s : _mm_add_ps(_mm_loadu_ps(to), s));
      } else {
        float v[4];
        _mm_storeu_ps(v, s);
        for (size_t j = 0; (size_t)i + j < stored; j++) skeep_section_end((skeep_f32_any *)to + j, v[j], first);
      }
    }
}

/* A section of up to EXACT_ROWS rows with all tokens. */
#define EXACT_ROWS 8 /* decoded together: a section of them nearly fits into the first-level cache */
SKEEP_INLINE void exact_section(const struct skeep_matmul_tile *tile, const struct exact_rows *w, size_t o, size_t k,
                                exact_load *load) {
  const size_t width = skeep_min(SKEEP_SECTION, tile->n - k), rows = skeep_min(EXACT_ROWS, tile->rows - o);
  const int64_t xs = tile->x_stride, ys = tile->y_stride;
  size_t parts = (tile->tokens + EXACT_TOKENS - 1) / EXACT_TOKENS;
  for (size_t t = 0, tokens; t < tile->tokens; t += tokens, parts--) {
    tokens = (tile->tokens - t + parts - 1) / parts; /* in parts of at most three tokens, of equal size: four are two and two */
    const char *x = tile->x + (int64_t)t * xs + 4 * k;
    float *y = tile->y + (int64_t)t * ys + o;
    const size_t step = tokens == 1 ? 8 : 4;
    for (size_t i = 0; i < rows; i += step) {
      const struct exact_rows r = {w->row + (int64_t)i * w->stride, w->stride, w->element};
#define CASE(count)                                                                                        \
  case count:                                                                                              \
    if (count <= EXACT_TOKENS)                                                                             \
      exact_block(&r, x, xs, y + i, ys, width, k == 0, rows - i, count == 1 ? 8 : 4, count, load);         \
    break;
      switch (tokens) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) }
#undef CASE
    }
  }
}

/* Weights used as they are stored: dense types, `element` bytes each. */
SKEEP_INLINE void exact_in_place(const struct skeep_matmul_tile *tile, size_t element, exact_load *load) {
  for (size_t o = 0; o < tile->rows; o += EXACT_ROWS)
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const struct exact_rows w = {tile->w + (int64_t)o * tile->w_stride + k * element, tile->w_stride, element};
      exact_section(tile, &w, o, k, load);
    }
}

/* Any encoding, decoded a section of some rows at a time. One function serves all: the decoder is a call in any
 * case. */
static __attribute__((noinline)) void exact_decoded(const struct skeep_matmul_tile *tile, const struct skeep_run *runs,
                                                    size_t block, size_t bytes, skeep_body_decode *decode) {
  float *scratch = tile->scratch;
  char *copy = (char *)(scratch + EXACT_ROWS * SKEEP_SECTION);
  for (size_t o = 0; o < tile->rows; o += EXACT_ROWS)
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t rows = skeep_min(EXACT_ROWS, tile->rows - o), count = skeep_min(SKEEP_SECTION, tile->n - k);
      for (size_t i = 0; i < rows; i++)
        decode(skeep_tile_blocks(tile, runs, o + i, k, count, block, bytes, copy), count / block,
               scratch + i * SKEEP_SECTION);
      const struct exact_rows w = {(const char *)scratch, 4 * SKEEP_SECTION, 4};
      exact_section(tile, &w, o, k, exact_f32);
    }
}

#endif
