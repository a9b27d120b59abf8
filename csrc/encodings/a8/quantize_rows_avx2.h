/* Gives the same bits as the portable kernel: 32 floats in four registers are converted and packed at once. */
#include "blocks.h"

static inline void skeep_a8_group_avx2(const char *x, skeep_block_a8 *b, size_t g) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 v[4];
  __m256i m[4], c[4];
  for (int k = 0; k < 4; k++) {
    v[k] = _mm256_loadu_ps((const float *)(const void *)(x + 32 * k));
    m[k] = _mm256_and_si256(_mm256_castps_si256(v[k]), magnitude);
  }
  m[0] = _mm256_max_epi32(_mm256_max_epi32(m[0], m[1]), _mm256_max_epi32(m[2], m[3]));
  __m128i top = _mm_max_epi32(_mm256_castsi256_si128(m[0]), _mm256_extracti128_si256(m[0], 1));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4e));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0xb1));
  const float amax = _mm_cvtss_f32(_mm_castsi128_ps(top));
  if (!(amax >= 0x1p-119f && (uint32_t)_mm_cvtsi128_si32(top) < 0x7f800000u)) {
    b->d[g] = (uint32_t)_mm_cvtsi128_si32(top) >= 0x7f800000u ? NAN : 0.0f;
    memset(b->qs + 32 * g, 0, 32);
    memset((char *)&b->sums + 4 * g, 0, 4);
    return;
  }
  b->d[g] = amax / 127.0f;
  const __m256 inverse = _mm256_set1_ps(127.0f / amax);
  for (int k = 0; k < 4; k++) c[k] = _mm256_cvtps_epi32(_mm256_mul_ps(v[k], inverse));
  /* Packs work within 128-bit lanes: dword i of w holds the four codes from 4 * {0 2 4 6 1 3 5 7}[i] on. */
  const __m256i w = _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
  const __m256i codes = _mm256_permutevar8x32_epi32(w, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256((__m256i *)(void *)(b->qs + 32 * g), codes);
  /* Sums of four codes in each dword, of 16 in each lane. */
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
  sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
  b->sums[2 * g] = (int16_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
  b->sums[2 * g + 1] = (int16_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
}

void skeep_quantize_rows_f32_a8_avx2(const float *in, size_t n, void *blocks) {
  const char *x = (const char *)in;
  skeep_block_a8 *b = blocks;
  size_t g = 0; /* group of the row; its place in the block is g % 4 */
  for (; 32 * (g + 1) <= n; g++) skeep_a8_group_avx2(x + 128 * g, b + g / 4, g % 4);
  if (32 * g < n) {
    float tail[32] = {0};
    memcpy(tail, x + 128 * g, 4 * (n - 32 * g));
    skeep_a8_group_avx2((const char *)tail, b + g / 4, g % 4);
    g++;
  }
  for (; g % 4; g++) {
    b[g / 4].d[g % 4] = 0;
    memset(b[g / 4].qs + 32 * (g % 4), 0, 32);
    memset((char *)&b[g / 4].sums + 4 * (g % 4), 0, 4);
  }
}
