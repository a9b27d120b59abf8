/* Bodies of products that are made of a template and what is particular to an encoding, for AVX-512 with VNNI: one line each in
 * generated/bodies_avx512.h. */
#include "tile/exact_avx512.h"
#include "tile/panel_avx512.h"

SKEEP_INLINE __m512i word_multiply(__m512i sum, __m512i codes, __m512i a) {
  return _mm512_dpwssd_epi32(sum, codes, a);
}
#include "tile/words_x86_template.h"

/* Codes that are bytes: panels of rows through panel.h of the form. */
#define PANEL_PRODUCT(form)                                                        \
  void skeep_matmul_t_##form##_a8_avx512(const struct skeep_matmul_tile *tile) { \
    panel_product(tile, form##_open, form##_read, form##_panel);                   \
  }
/* Other codes, as words: through group.h of the form. */
#define GROUP_PRODUCT(form)                                                        \
  void skeep_matmul_t_##form##_a8_avx512(const struct skeep_matmul_tile *tile) { \
    word_product(tile, form##_group, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form);   \
  }
/* F32 activations: through a decoder of the form. */
#define DECODED_PRODUCT(form, decoder)                                             \
  void skeep_matmul_t_##form##_f32_avx512(const struct skeep_matmul_tile *tile) {\
    exact_decoded(tile, SKEEP_ELEMENTS_##form, SKEEP_BYTES_##form, decoder);       \
  }
