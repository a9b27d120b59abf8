/* The eight lanes of vec_portable.h in two Advanced SIMD registers (doubles in four). */
#define DENSE(name) skeep_##name##_neon

typedef struct v8 {
  float32x4_t a, b;
} v8;
typedef struct d8 {
  float64x2_t a, b, c, d;
} d8;

static inline v8 v8_set(float x) { return (v8){vdupq_n_f32(x), vdupq_n_f32(x)}; }
static inline v8 v8_load(const void *p) {
  const uint8_t *q = p; /* byte loads: any alignment */
  return (v8){vreinterpretq_f32_u8(vld1q_u8(q)), vreinterpretq_f32_u8(vld1q_u8(q + 16))};
}
static inline void v8_store(void *p, v8 x) {
  uint8_t *q = p;
  vst1q_u8(q, vreinterpretq_u8_f32(x.a));
  vst1q_u8(q + 16, vreinterpretq_u8_f32(x.b));
}
static inline v8 v8_lanes(void) {
  static const float lanes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  return v8_load(lanes);
}
static inline v8 v8_load_n(const void *p, size_t n) {
  float t[8] = {0};
  memcpy(t, p, n * sizeof(float));
  return v8_load(t);
}
static inline void v8_store_n(void *p, v8 x, size_t n) {
  float t[8];
  v8_store(t, x);
  memcpy(p, t, n * sizeof(float));
}
static inline v8 v8_load_f16(const void *p) {
  const float16x8_t h = vreinterpretq_f16_u8(vld1q_u8(p));
  return (v8){vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)};
}
static inline v8 v8_load_bf16(const void *p) {
  const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(p));
  return (v8){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
              vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))};
}
static inline void v8_store_f16(void *p, v8 x) {
  vst1q_u8(p, vreinterpretq_u8_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b)));
}
static inline uint16x4_t v8_to_bf16(float32x4_t x) {
  const uint32x4_t u = vreinterpretq_u32_f32(x);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000)); /* rounding could make a NaN infinite */
  return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
}
static inline void v8_store_bf16(void *p, v8 x) {
  vst1q_u8(p, vreinterpretq_u8_u16(vcombine_u16(v8_to_bf16(x.a), v8_to_bf16(x.b))));
}
static inline v8 v8_add(v8 x, v8 y) { return (v8){vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b)}; }
static inline v8 v8_sub(v8 x, v8 y) { return (v8){vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b)}; }
static inline v8 v8_mul(v8 x, v8 y) { return (v8){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)}; }
static inline v8 v8_div(v8 x, v8 y) { return (v8){vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b)}; }
static inline v8 v8_fma(v8 x, v8 y, v8 z) { return (v8){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)}; }
static inline v8 v8_if_less(v8 p, v8 q, v8 x, v8 y) {
  return (v8){vbslq_f32(vcltq_f32(p.a, q.a), x.a, y.a), vbslq_f32(vcltq_f32(p.b, q.b), x.b, y.b)};
}
/* Uses a comparison, since FMAX would return a NaN of either operand. */
static inline v8 v8_max(v8 x, v8 y) { return v8_if_less(y, x, x, y); }
static inline v8 v8_min(v8 x, v8 y) { return v8_if_less(x, y, x, y); }
static inline v8 v8_abs(v8 x) { return (v8){vabsq_f32(x.a), vabsq_f32(x.b)}; }
static inline v8 v8_copysign(v8 x, v8 sign) {
  const uint32x4_t bit = vdupq_n_u32(0x80000000u);
  return (v8){vbslq_f32(bit, sign.a, x.a), vbslq_f32(bit, sign.b, x.b)};
}
static inline v8 v8_round(v8 x) { return (v8){vrndnq_f32(x.a), vrndnq_f32(x.b)}; }
static inline float32x4_t v8_power(float32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
static inline v8 v8_power_of_2(v8 n) { return (v8){v8_power(n.a), v8_power(n.b)}; }
static inline v8 v8_swap_pairs(v8 x) { return (v8){vrev64q_f32(x.a), vrev64q_f32(x.b)}; }
static inline v8 v8_double_low(v8 x) { return (v8){vzip1q_f32(x.a, x.a), vzip2q_f32(x.a, x.a)}; }
static inline float v8_sum(v8 x) {
  const float32x4_t pairs = vpaddq_f32(x.a, x.b);
  const float32x4_t quads = vpaddq_f32(pairs, pairs);
  return vgetq_lane_f32(quads, 0) + vgetq_lane_f32(quads, 1);
}
static inline void v8_sum4(v8 x, v8 y, v8 z, v8 w, float *to) {
  const float32x4_t xy = vpaddq_f32(vpaddq_f32(x.a, x.b), vpaddq_f32(y.a, y.b));
  const float32x4_t zw = vpaddq_f32(vpaddq_f32(z.a, z.b), vpaddq_f32(w.a, w.b));
  vst1q_f32(to, vpaddq_f32(xy, zw));
}
static inline float v8_largest(v8 x) { return vmaxvq_f32(vmaxq_f32(x.a, x.b)); }

static inline d8 d8_set(double x) {
  const float64x2_t v = vdupq_n_f64(x);
  return (d8){v, v, v, v};
}
static inline d8 d8_load(const void *p) {
  const double *q = p; /* scratch: aligned */
  return (d8){vld1q_f64(q), vld1q_f64(q + 2), vld1q_f64(q + 4), vld1q_f64(q + 6)};
}
static inline d8 d8_widen(v8 x) {
  return (d8){vcvt_f64_f32(vget_low_f32(x.a)), vcvt_high_f64_f32(x.a), vcvt_f64_f32(vget_low_f32(x.b)),
              vcvt_high_f64_f32(x.b)};
}
static inline v8 d8_narrow(d8 x) {
  return (v8){vcvt_high_f32_f64(vcvt_f32_f64(x.a), x.b), vcvt_high_f32_f64(vcvt_f32_f64(x.c), x.d)};
}
static inline d8 d8_add(d8 x, d8 y) {
  return (d8){vaddq_f64(x.a, y.a), vaddq_f64(x.b, y.b), vaddq_f64(x.c, y.c), vaddq_f64(x.d, y.d)};
}
static inline d8 d8_mul(d8 x, d8 y) {
  return (d8){vmulq_f64(x.a, y.a), vmulq_f64(x.b, y.b), vmulq_f64(x.c, y.c), vmulq_f64(x.d, y.d)};
}
static inline d8 d8_div(d8 x, d8 y) {
  return (d8){vdivq_f64(x.a, y.a), vdivq_f64(x.b, y.b), vdivq_f64(x.c, y.c), vdivq_f64(x.d, y.d)};
}
static inline d8 d8_fma(d8 x, d8 y, d8 z) {
  return (d8){vfmaq_f64(z.a, x.a, y.a), vfmaq_f64(z.b, x.b, y.b), vfmaq_f64(z.c, x.c, y.c),
              vfmaq_f64(z.d, x.d, y.d)};
}
static inline d8 d8_round(d8 x) { return (d8){vrndnq_f64(x.a), vrndnq_f64(x.b), vrndnq_f64(x.c), vrndnq_f64(x.d)}; }
static inline double d8_sum(d8 x) {
  const float64x2_t even = vaddq_f64(x.a, x.c), odd = vaddq_f64(x.b, x.d); /* lanes 0 and 1, 2 and 3 */
  return (vgetq_lane_f64(even, 0) + vgetq_lane_f64(even, 1)) + (vgetq_lane_f64(odd, 0) + vgetq_lane_f64(odd, 1));
}
