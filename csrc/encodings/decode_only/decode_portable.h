/* Encodings that can only be decoded: dense numbers, and the activation encodings of other runtimes. */
#include "blocks.h"

/* Dense numbers. Those of up to 16 bits are exact; wider ones are rounded to the nearest float, ties to even, and
 * overflow to infinity. */
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

/* code * d. The sum of the block is used by products only. */
void skeep_decode_q8_1_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q8_1 *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 32) {
    const float d = skeep_f16_to_f32(b->d);
    for (int j = 0; j < 32; j++) y[j] = (float)b->qs[j] * d;
  }
}

/* code * d. The sums of the block are used by products only. */
void skeep_decode_q8_k_portable(const void *blocks, size_t count, float *out) {
  const skeep_block_q8_k *b = blocks;
  skeep_f32_any *y = out;
  for (size_t i = 0; i < count; i++, b++, y += 256)
    for (int j = 0; j < 256; j++) y[j] = (float)b->qs[j] * b->d;
}
