/* The products of the grouped encodings for AVX2. */
#include "tile/exact_avx2.h"
#include "tile/panel_avx2.h"

SKEEP_INLINE __m256i word_multiply(__m256i sum, __m256i codes, __m256i a) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(codes, a));
}
#define ISA avx2
#include "tile/grouped_x86.h"
#undef ISA
