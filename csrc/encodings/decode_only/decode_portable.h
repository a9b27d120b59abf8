/* Encodings that are read and nothing else: numbers as wide as files have them, and activations of other runtimes. */
#include "blocks.h"

/* Numbers one after the other: exact up to 16 bits, wider ones rounded to the nearest float, ties to even; what is too
 * large is infinite. */
#define DECODE_NUMBERS(form, type)                                                     \
  void skeep_decode_##form##_portable(const void *blocks, size_t count, float *out) {  \
    const char *x = blocks;                                                            \
    skeep_f32_any *y = out;                                                            \
    for (size_t i = 0; i < count; i++) {                                               \
      type v;                                                                          \
      memcpy(&v, x + sizeof v * i, sizeof v);                                          \
      y[i] = (float)v;                                                                 \
    }                                                                                  \
  }
DECODE_NUMBERS(i8, int8_t)
DECODE_NUMBERS(i16, int16_t)
DECODE_NUMBERS(i32, int32_t)
DECODE_NUMBERS(i64, int64_t)
DECODE_NUMBERS(f64, double)
#undef DECODE_NUMBERS

/* code * d; the sum is for products only. */
void skeep_decode_q8_1_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q8_1 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 32) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 32; j++) y[j] = (float)b->qs[j] * d;
  }
}

/* code * d; the sums are for products only. */
void skeep_decode_q8_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q8_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256)
    for (int j = 0; j < 256; j++) y[j] = (float)b->qs[j] * b->d;
}
