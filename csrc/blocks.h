/* The blocks of packed encodings as structs, and functions that read some of their fields, shared by kernels. Blocks
 * are little-endian, without padding, at any address. encodings/<form>/decode_portable.h decodes them.
 * Sources: the GGUF specification; OCP Microscaling 1.0 for the scales of MXFP4 and NVFP4. */
#ifndef SKEEP_BLOCKS_H
#define SKEEP_BLOCKS_H

#include "internal.h"

/* float at any address, as bodies read and write it. */
typedef float skeep_f32_any __attribute__((aligned(1), may_alias));

/* SKEEP_ELEMENTS_<form> and SKEEP_BYTES_<form> of one block. */
enum skeep_block_geometry {
#define SKEEP_ENCODING(id, NAME, name, dtype, elements, bytes, flags, fields, feed) \
  SKEEP_ELEMENTS_##name = elements, SKEEP_BYTES_##name = bytes,
#include "encodings.def"
#undef SKEEP_ENCODING
};

/* In the fields below d and m (dmin) are the block's scale and minimum as IEEE halves, unless another type says
 * otherwise; qs holds codes, qh their high bits, sc and scales the scales of groups. */
#define SKEEP_BLOCK(name, ...)                                                  \
  typedef struct __attribute__((packed)) skeep_block_##name {                   \
    __VA_ARGS__                                                                 \
  } skeep_block_##name;                                                         \
  _Static_assert(sizeof(skeep_block_##name) == SKEEP_BYTES_##name, "block size of " #name);
#include "generated/blocks_fields.h"
#undef SKEEP_BLOCK

/* Q4_K, Q5_K: the six-bit scale and minimum of 32-element group g, from the twelve scale bytes. */
static inline uint32_t skeep_k4_scale(const uint8_t *b, uint32_t g) {
  return g < 4 ? b[g] & 63u : (b[g + 4] & 15u) | (uint32_t)(b[g - 4] >> 6) << 4;
}
static inline uint32_t skeep_k4_min(const uint8_t *b, uint32_t g) {
  return g < 4 ? b[g + 4] & 63u : (uint32_t)(b[g + 4] >> 4) | (uint32_t)(b[g] >> 6) << 4;
}
/* Q3_K: the scale of 16-element group g, from the twelve scale bytes, in [-32, 31]. */
static inline int32_t skeep_q3_k_scale(const uint8_t *b, uint32_t g) {
  const uint32_t low = g < 8 ? b[g] & 15u : (uint32_t)b[g - 8] >> 4;
  return (int32_t)(low | (b[8 + g % 4] >> 2 * (g / 4) & 3u) << 4) - 32;
}
/* IQ4_XS: the scale of 32-element group g, in [-32, 31]. */
static inline int32_t skeep_iq4_xs_scale(const skeep_block_iq4_xs *b, uint32_t g) {
  return (int32_t)((b->scales_l[g / 2] >> 4 * (g % 2) & 15u) | (b->scales_h >> 2 * g & 3u) << 4) - 32;
}
/* IQ1_M: the scale of the block, of which each of the four words has four bits at its top. */
static inline float skeep_iq1_m_d(const skeep_block_iq1_m *b) {
  uint32_t h = 0;
  for (uint32_t i = 0; i < 4; i++) h |= (uint32_t)(b->scales[i] >> 12) << 4 * i;
  return skeep_f16_to_f32((uint16_t)h);
}
/* Half of the power of two that E8M0 byte e names: 2^(e - 128), to go with the doubled values of E2M1. */
static inline float skeep_e8m0_half(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23; /* the first two are subnormal */
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
/* UE4M3, bias 7: the bytes 0 and 0x7f mean 0; the top bit counts in that test only. */
static inline float skeep_ue4m3(uint8_t x) {
  if (x == 0 || x == 0x7f) return 0.0f;
  const uint32_t e = x >> 3 & 15u, m = x & 7u;
  if (e == 0) return (float)m * 0x1p-9f;
  const uint32_t bits = (e + 120u) << 23 | m << 20;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
/* For encoders: x truncated to an integer and clamped to [0, max]; NaN gives 0. */
static inline uint32_t skeep_code(float x, uint32_t max) {
  return x > 0 ? x < (float)max ? (uint32_t)x : max : 0;
}
/* For encoders: whether one of n values is NaN. The scale of such a block becomes NaN, since no code stands for it. */
static inline int skeep_any_nan(const skeep_f32_any *x, int n) {
  int any = 0;
  for (int j = 0; j < n; j++) any |= x[j] != x[j];
  return any;
}

#endif
