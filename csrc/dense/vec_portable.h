/* Vectors of eight floats (v8) and doubles (d8) in plain C. This file defines what each function means; vec_avx2.h and
 * vec_neon.h have the same functions. A kernel in this directory is written once with them and compiled for every
 * instruction set; DENSE makes its name. Lanes are independent of each other except in v8_sum, v8_sum4, v8_largest and
 * d8_sum, which add in the same order (a tree) everywhere. */
#define DENSE(name) skeep_##name##_portable

typedef struct v8 {
  float f[8];
} v8;
typedef struct d8 {
  double f[8];
} d8;
#define EACH for (int i = 0; i < 8; i++)

static inline v8 v8_set(float x) {
  v8 y;
  EACH y.f[i] = x;
  return y;
}
static inline v8 v8_lanes(void) { return (v8){{0, 1, 2, 3, 4, 5, 6, 7}}; }
static inline v8 v8_load(const void *p) {
  v8 y;
  memcpy(&y, p, sizeof y);
  return y;
}
static inline void v8_store(void *p, v8 x) { memcpy(p, &x, sizeof x); }
/* The first n <= 8 elements; the other lanes are 0. Touches no other byte. */
static inline v8 v8_load_n(const void *p, size_t n) {
  v8 y = v8_set(0);
  memcpy(&y, p, n * sizeof(float));
  return y;
}
static inline void v8_store_n(void *p, v8 x, size_t n) { memcpy(p, &x, n * sizeof(float)); }
static inline v8 v8_load_f16(const void *p) {
  uint16_t h[8];
  memcpy(h, p, sizeof h);
  v8 y;
  EACH y.f[i] = skeep_f16_to_f32(h[i]);
  return y;
}
static inline v8 v8_load_bf16(const void *p) {
  uint16_t h[8];
  memcpy(h, p, sizeof h);
  v8 y;
  EACH y.f[i] = skeep_bf16_to_f32(h[i]);
  return y;
}
static inline void v8_store_f16(void *p, v8 x) {
  uint16_t h[8];
  EACH h[i] = skeep_f32_to_f16(x.f[i]);
  memcpy(p, h, sizeof h);
}
static inline void v8_store_bf16(void *p, v8 x) {
  uint16_t h[8];
  EACH h[i] = skeep_f32_to_bf16(x.f[i]);
  memcpy(p, h, sizeof h);
}
static inline v8 v8_add(v8 a, v8 b) {
  EACH a.f[i] += b.f[i];
  return a;
}
static inline v8 v8_sub(v8 a, v8 b) {
  EACH a.f[i] -= b.f[i];
  return a;
}
static inline v8 v8_mul(v8 a, v8 b) {
  EACH a.f[i] *= b.f[i];
  return a;
}
static inline v8 v8_div(v8 a, v8 b) {
  EACH a.f[i] /= b.f[i];
  return a;
}
/* a*b + c; rounded once where the processor fuses, twice here. */
static inline v8 v8_fma(v8 a, v8 b, v8 c) { return v8_add(v8_mul(a, b), c); }
/* b when either is NaN, so that v8_max(constant, x) returns a NaN of x and v8_max(x, m) ignores it. */
static inline v8 v8_max(v8 a, v8 b) {
  EACH a.f[i] = a.f[i] > b.f[i] ? a.f[i] : b.f[i];
  return a;
}
static inline v8 v8_min(v8 a, v8 b) {
  EACH a.f[i] = a.f[i] < b.f[i] ? a.f[i] : b.f[i];
  return a;
}
static inline v8 v8_abs(v8 x) {
  EACH x.f[i] = fabsf(x.f[i]);
  return x;
}
static inline v8 v8_copysign(v8 x, v8 sign) {
  EACH x.f[i] = copysignf(x.f[i], sign.f[i]);
  return x;
}
/* a < b ? x : y, lane by lane; y when either is NaN. */
static inline v8 v8_if_less(v8 a, v8 b, v8 x, v8 y) {
  EACH y.f[i] = a.f[i] < b.f[i] ? x.f[i] : y.f[i];
  return y;
}
/* To the nearest integer, ties to even. */
static inline v8 v8_round(v8 x) {
  EACH x.f[i] = rintf(x.f[i]);
  return x;
}
/* 2^n for an integer n in [-126, 127]; unspecified for others and NaN. */
static inline v8 v8_power_of_2(v8 n) {
  EACH {
    const float k = n.f[i] >= -126.0f ? n.f[i] <= 127.0f ? n.f[i] : 127.0f : -126.0f;
    const uint32_t bits = (uint32_t)((int32_t)k + 127) << 23;
    memcpy(&n.f[i], &bits, sizeof bits);
  }
  return n;
}
/* Exchanges lanes 2i and 2i+1. */
static inline v8 v8_swap_pairs(v8 x) {
  v8 y;
  EACH y.f[i] = x.f[i ^ 1];
  return y;
}
/* Lanes 0, 0, 1, 1, 2, 2, 3, 3. */
static inline v8 v8_double_low(v8 x) {
  v8 y;
  EACH y.f[i] = x.f[i / 2];
  return y;
}
static inline float v8_sum(v8 x) {
  return ((x.f[0] + x.f[1]) + (x.f[2] + x.f[3])) + ((x.f[4] + x.f[5]) + (x.f[6] + x.f[7]));
}
/* to[0..3] = the v8_sum of each. */
static inline void v8_sum4(v8 a, v8 b, v8 c, v8 d, float *to) {
  to[0] = v8_sum(a), to[1] = v8_sum(b), to[2] = v8_sum(c), to[3] = v8_sum(d);
}
/* The largest lane; no lane is NaN. */
static inline float v8_largest(v8 x) {
  float m = x.f[0];
  EACH m = x.f[i] > m ? x.f[i] : m;
  return m;
}

static inline d8 d8_set(double x) {
  d8 y;
  EACH y.f[i] = x;
  return y;
}
static inline d8 d8_load(const void *p) {
  d8 y;
  memcpy(&y, p, sizeof y);
  return y;
}
static inline d8 d8_widen(v8 x) {
  d8 y;
  EACH y.f[i] = (double)x.f[i];
  return y;
}
static inline v8 d8_narrow(d8 x) {
  v8 y;
  EACH y.f[i] = (float)x.f[i];
  return y;
}
static inline d8 d8_add(d8 a, d8 b) {
  EACH a.f[i] += b.f[i];
  return a;
}
static inline d8 d8_mul(d8 a, d8 b) {
  EACH a.f[i] *= b.f[i];
  return a;
}
static inline d8 d8_div(d8 a, d8 b) {
  EACH a.f[i] /= b.f[i];
  return a;
}
static inline d8 d8_fma(d8 a, d8 b, d8 c) { return d8_add(d8_mul(a, b), c); }
static inline d8 d8_round(d8 x) {
  EACH x.f[i] = rint(x.f[i]);
  return x;
}
static inline double d8_sum(d8 x) {
  return ((x.f[0] + x.f[4]) + (x.f[1] + x.f[5])) + ((x.f[2] + x.f[6]) + (x.f[3] + x.f[7]));
}
#undef EACH
