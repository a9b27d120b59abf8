/* IEEE half and bfloat16. Part of internal.h. */
#ifndef SKEEP_HALF_H
#define SKEEP_HALF_H

/* IEEE half and bfloat16, one value (all units; bodies use instructions where they have them). */
static inline float skeep_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu, bits;
  float f;
  if (e == 0) { /* zero or subnormal: m * 2^-24, exact */
    f = (float)m * 0x1p-24f;
    memcpy(&bits, &f, 4);
    bits |= sign;
  } else {
    bits = sign | (e == 31 ? 0x7f800000u : (e + 112u) << 23) | m << 13;
  }
  memcpy(&f, &bits, 4);
  return f;
}
static inline uint16_t skeep_f32_to_f16(float f) { /* round to nearest even */
  uint32_t x;
  memcpy(&x, &f, 4);
  uint32_t sign = (x >> 16) & 0x8000u, a = x & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (a < 0x38800000u) { /* below the smallest normal half: add so that the hardware rounds at bit 2^-24 */
    float m;
    memcpy(&m, &a, 4);
    m += 0.5f;
    uint32_t r;
    memcpy(&r, &m, 4);
    return (uint16_t)(sign | (r - 0x3f000000u));
  }
  a += 0xfffu + (a >> 13 & 1u);
  return (uint16_t)(sign | (a - 0x38000000u) >> 13);
}
static inline float skeep_bf16_to_f32(uint16_t h) {
  uint32_t x = (uint32_t)h << 16;
  float f;
  memcpy(&f, &x, 4);
  return f;
}
static inline uint16_t skeep_f32_to_bf16(float f) {
  uint32_t x;
  memcpy(&x, &f, 4);
  if ((x & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(x >> 16 | 0x40u);
  return (uint16_t)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);
}

#endif
