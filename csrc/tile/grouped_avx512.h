/* The products of the grouped encodings for AVX-512 with VNNI. */
#include "tile/exact_avx512.h"
#include "tile/panel_avx512.h"

SKEEP_INLINE __m512i word_multiply(__m512i sum, __m512i codes, __m512i a) {
  return _mm512_dpwssd_epi32(sum, codes, a);
}
#define ISA avx512
#include "tile/grouped_x86.h"
#undef ISA
