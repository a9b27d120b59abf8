/* One row of keys or values in the cache's encoding, rounded to nearest even. */
void DENSE(kv_store_f32)(const char *in, size_t n, char *out) { memcpy(out, in, 4 * n); }
void DENSE(kv_store_f16)(const char *in, size_t n, char *out) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) v8_store_f16(out + 2 * i, v8_load(in + 4 * i));
  if (i == n) return;
  uint16_t rest[8];
  v8_store_f16(rest, v8_load_n(in + 4 * i, n - i));
  memcpy(out + 2 * i, rest, 2 * (n - i));
}
void DENSE(kv_store_bf16)(const char *in, size_t n, char *out) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) v8_store_bf16(out + 2 * i, v8_load(in + 4 * i));
  if (i == n) return;
  uint16_t rest[8];
  v8_store_bf16(rest, v8_load_n(in + 4 * i, n - i));
  memcpy(out + 2 * i, rest, 2 * (n - i));
}
