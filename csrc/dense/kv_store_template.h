/* Converts one row of keys or values to the encoding of the cache, rounded to nearest even. Returns whether an element
 * became infinite. */
#ifndef DENSE
#error "parameters: the vectors v8 and d8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif

int DENSE(kv_store_f32)(const char *in, size_t n, char *out) {
  memcpy(out, in, 4 * n);
  return 0;
}
int DENSE(kv_store_f16)(const char *in, size_t n, char *out) {
  v8 max_abs = v8_set(0);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const v8 x = v8_load(in + 4 * i);
    v8_store_f16(out + 2 * i, x);
    max_abs = v8_max(v8_abs(x), max_abs);
  }
  if (i < n) {
    const v8 x = v8_load_n(in + 4 * i, n - i);
    uint16_t rest[8];
    v8_store_f16(rest, x);
    memcpy(out + 2 * i, rest, 2 * (n - i));
    max_abs = v8_max(v8_abs(x), max_abs);
  }
  return v8_largest(max_abs) >= SKEEP_F16_LIMIT;
}
int DENSE(kv_store_bf16)(const char *in, size_t n, char *out) {
  v8 max_abs = v8_set(0);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const v8 x = v8_load(in + 4 * i);
    v8_store_bf16(out + 2 * i, x);
    max_abs = v8_max(v8_abs(x), max_abs);
  }
  if (i < n) {
    const v8 x = v8_load_n(in + 4 * i, n - i);
    uint16_t rest[8];
    v8_store_bf16(rest, x);
    memcpy(out + 2 * i, rest, 2 * (n - i));
    max_abs = v8_max(v8_abs(x), max_abs);
  }
  return v8_largest(max_abs) >= SKEEP_BF16_LIMIT;
}
