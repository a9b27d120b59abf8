/* The exact product for AVX2: F32 activations, and weights that are F32, are loaded as F32, or are decoded to F32 a
 * section of some rows at a time. Rows of weights and of activations both run along the inner axis, so nothing is
 * interleaved: four rows times three tokens keep twelve sums of eight lanes in registers, and one token is read
 * against eight rows side by side. */
#ifndef SKEEP_TILE_EXACT_AVX2_H
#define SKEEP_TILE_EXACT_AVX2_H

#include "tile/tile.h"

/* Eight consecutive weights at p, or the first `count` of them and zeros. */
typedef __m256 exact_load(const char *p, size_t count);

/* In F32; also the activations. */
SKEEP_INLINE __m256 exact_f32_avx2(const char *p, size_t count) {
  if (count == 8) return _mm256_loadu_ps((const float *)p);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps((const float *)p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane));
}

/* Eight 16-bit elements, or the first `count` and zeros. */
SKEEP_INLINE __m128i exact_16_avx2(const char *p, size_t count) {
  if (count == 8) return _mm_loadu_si128((const __m128i *)p);
  uint16_t v[8] = {0};
  memcpy(v, p, 2 * count);
  return _mm_loadu_si128((const __m128i *)v);
}

/* Up to here, loading 16-bit weights anew for each few tokens is cheaper than a pass through scratch. */
#define EXACT_IN_PLACE 16

/* How the rows of weights lie: as stored, or decoded in scratch. */
struct exact_rows {
  const char *row; /* at the section */
  int64_t stride;
  size_t element;      /* bytes */
};

/* A section of `rows` rows times `tokens` tokens; rows and tokens are constants where it is inlined. Only the
 * first `stored` rows are stored; those behind repeat the last of them. */
SKEEP_INLINE void exact_block(const struct exact_rows *w, const char *x, int64_t x_stride, float *y, int64_t y_stride,
                              size_t count, int first, size_t stored, const int rows, const int tokens,
                              exact_load *load) {
  __m256 sum[8][3];
  const char *row[8];
  for (int i = 0; i < rows; i++) {
    row[i] = w->row + (int64_t)skeep_min((size_t)i, stored - 1) * w->stride;
    for (int t = 0; t < tokens; t++) sum[i][t] = _mm256_setzero_ps();
  }
#define STEP(k, n)                                                                                       \
  {                                                                                                      \
    __m256 a[3];                                                                                         \
    for (int t = 0; t < tokens; t++) a[t] = exact_f32_avx2(x + t * x_stride + 4 * (k), n);               \
    for (int i = 0; i < rows; i++) {                                                                     \
      const __m256 v = load(row[i] + (k)*w->element, n);                                                 \
      for (int t = 0; t < tokens; t++) sum[i][t] = _mm256_fmadd_ps(v, a[t], sum[i][t]);                  \
    }                                                                                                    \
  }
  size_t k = 0;
  for (; k + 8 <= count; k += 8) {
    if (tokens == 1 && k % (64 / w->element) == 0) /* bound by memory: a line of each row, a little ahead */
      for (int i = 0; i < rows; i++) _mm_prefetch(row[i] + k * w->element + 1024, _MM_HINT_T0);
    STEP(k, 8)
  }
  if (k < count) STEP(k, count - k)
#undef STEP
  for (int i = 0; i < rows; i += 4)
    for (int t = 0; t < tokens; t++) {
      const __m256 h = _mm256_hadd_ps(_mm256_hadd_ps(sum[i][t], sum[i + 1][t]), _mm256_hadd_ps(sum[i + 2][t], sum[i + 3][t]));
      const __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
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

/* A section of up to EXACT_ROWS 8rows against all tokens. */
#define EXACT_ROWS 8 /* decoded together: a section of theirs stays near the first-level cache */
SKEEP_INLINE void exact_section(const struct skeep_matmul_tile *tile, const struct exact_rows *w, size_t o, size_t k,
                                exact_load *load) {
  const size_t count = skeep_min(SKEEP_SECTION, tile->n - k), rows = skeep_min(EXACT_ROWS, tile->rows - o);
  const int64_t xs = tile->x_stride, ys = tile->y_stride;
  size_t parts = (tile->tokens + 2) / 3;
  for (size_t t = 0, tokens; t < tile->tokens; t += tokens, parts--) {
    tokens = (tile->tokens - t + parts - 1) / parts; /* four tokens are two times two */
    const char *x = tile->x + (int64_t)t * xs + 4 * k;
    float *y = tile->y + (int64_t)t * ys + o;
    const size_t step = tokens == 1 ? 8 : 4;
    for (size_t i = 0; i < rows; i += step) {
      const struct exact_rows r = {w->row + (int64_t)i * w->stride, w->stride, w->element};
      switch (tokens) {
        case 1: exact_block(&r, x, xs, y + i, ys, count, k == 0, rows - i, 8, 1, load); break;
        case 2: exact_block(&r, x, xs, y + i, ys, count, k == 0, rows - i, 4, 2, load); break;
        default: exact_block(&r, x, xs, y + i, ys, count, k == 0, rows - i, 4, 3, load); break;
      }
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

/* Any encoding, decoded a section of some rows at a time. */
SKEEP_INLINE void exact_decoded(const struct skeep_matmul_tile *tile, size_t block, size_t bytes,
                                skeep_body_decode *decode) {
  float *scratch = tile->scratch;
  for (size_t o = 0; o < tile->rows; o += EXACT_ROWS)
    for (size_t k = 0; k < tile->n; k += SKEEP_SECTION) {
      const size_t rows = skeep_min(EXACT_ROWS, tile->rows - o);
      for (size_t i = 0; i < rows; i++)
        decode(tile->w + (int64_t)(o + i) * tile->w_stride + k / block * bytes,
               skeep_min(SKEEP_SECTION, tile->n - k) / block, scratch + i * SKEEP_SECTION);
      const struct exact_rows w = {(const char *)scratch, 4 * SKEEP_SECTION, 4};
      exact_section(tile, &w, o, k, exact_f32_avx2);
    }
}

#endif
