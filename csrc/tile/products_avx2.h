/* Bodies of products that are made of a template and what is particular to an encoding, for AVX2: one line each in
 * generated/bodies_avx2.h. */
#include "tile/exact_avx2.h"
#include "tile/panel_avx2.h"

SKEEP_INLINE __m256i word_multiply(__m256i sum, __m256i codes, __m256i a) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(codes, a));
}
#include "tile/words_x86_template.h"

/* Codes that are bytes: panels of rows through panel.h of the form. */
#define PANEL_PRODUCT(form)                                                        \
  void skeep_matmul_t_##form##_a8_avx2(const struct skeep_matmul_tile *tile) {   \
    panel_product(tile, form##_open, form##_read, form##_panel);                   \
  }
/* Other codes, as words: through group.h of the form. */
#define GROUP_PRODUCT(form)                                                        \
  void skeep_matmul_t_##form##_a8_avx2(const struct skeep_matmul_tile *tile) {   \
    word_product(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);   \
  }
/* F32 activations: through a decoder of the form. */
#define DECODED_PRODUCT(form, decoder)                                             \
  void skeep_matmul_t_##form##_f32_avx2(const struct skeep_matmul_tile *tile) {  \
    exact_decoded(tile, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, decoder);       \
  }
