/* Rotary position embedding. cos and sin of a token's angles are formed once and serve all its heads. */
#ifndef DENSE
#error "parameters: the vectors v8 and d8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif

/* magnitude = result * *power of two, the result at most 1, so that the products of a turn overflow where their sum or difference,
 * times the power, does and nowhere else. */
static inline float rope_lowered(float magnitude, float *power) {
  int n = 0;
  if (fabsf(magnitude) > 1) (void)frexpf(magnitude, &n);
  *power = ldexpf(1, n < 127 ? n : 127);
  return magnitude / *power;
}

void DENSE(rope_f32)(const struct skeep_rope_rows *a) {
  const size_t pairs = a->dims / 2, padded = (pairs + 7) / 8 * 8;
  float *cosine = a->scratch, *sine = cosine + padded + 8; /* of each pair; read 4 behind the last one */
  float *twice_c = sine + padded + 8, *twice_s = twice_c + 2 * padded; /* of each element; -sin at even ones */
  static const float signs[8] = {-1, 1, -1, 1, -1, 1, -1, 1};
  float power;
  const v8 magnitude = v8_set(rope_lowered(a->magnitude, &power)), back = v8_set(power), alternate = v8_load(signs);
  for (size_t t = 0; t < a->tokens; t++) {
    int32_t position;
    memcpy(&position, a->positions + (int64_t)t * a->position_stride, sizeof position);
    for (size_t i = 0; i < padded; i += 8) {
      v8 c, s;
      d8_cos_sin(d8_mul(d8_set(position), d8_load(a->theta + i)), &c, &s);
      v8_store(cosine + i, v8_mul(c, magnitude));
      v8_store(sine + i, v8_mul(s, magnitude));
    }
    if (a->form == SKEEP_ROPE_NORMAL)
      for (size_t i = 0; i < padded; i += 4) {
        v8_store(twice_c + 2 * i, v8_double_low(v8_load(cosine + i)));
        v8_store(twice_s + 2 * i, v8_mul(alternate, v8_double_low(v8_load(sine + i))));
      }
    for (size_t h = 0; h < a->heads; h++) {
      const char *x = a->x + (int64_t)t * a->x_token + (int64_t)h * a->x_head;
      char *y = a->y + (int64_t)t * a->y_token + (int64_t)h * a->y_head;
      if (a->form == SKEEP_ROPE_NORMAL) {
        for (size_t i = 0; i < a->dims; i += 8) {
          const v8 v = v8_get(x + 4 * i, a->dims - i);
          const v8 turned = v8_fma(v8_swap_pairs(v), v8_load(twice_s + i), v8_mul(v, v8_load(twice_c + i)));
          v8_put(y + 4 * i, v8_mul(back, turned), a->dims - i);
        }
      } else {
        for (size_t i = 0; i < pairs; i += 8) {
          const v8 u = v8_get(x + 4 * i, pairs - i), v = v8_get(x + 4 * (pairs + i), pairs - i);
          const v8 c = v8_load(cosine + i), s = v8_load(sine + i);
          v8_put(y + 4 * i, v8_mul(back, v8_sub(v8_mul(u, c), v8_mul(v, s))), pairs - i);
          v8_put(y + 4 * (pairs + i), v8_mul(back, v8_fma(u, s, v8_mul(v, c))), pairs - i);
        }
      }
      if (y != x) memcpy(y + 4 * a->dims, x + 4 * a->dims, 4 * (a->head_dim - a->dims));
    }
  }
}
