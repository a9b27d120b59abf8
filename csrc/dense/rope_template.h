/* Rotary position embedding. cos and sin of the angles of a token are computed once for all its heads. Pairs are
 * rotated in double, where no product of three floats overflows: only the result is rounded, and may overflow. */
#ifndef DENSE
#error "parameters: the vectors v8 and d8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif

/* (x * c + y * s) * magnitude */
static inline v8 rope_turned(v8 x, v8 c, v8 y, v8 s, d8 magnitude) {
  return d8_narrow(d8_mul(d8_fma(d8_widen(y), d8_widen(s), d8_mul(d8_widen(x), d8_widen(c))), magnitude));
}

void DENSE(rope_f32)(const struct skeep_rope_rows *a) {
  const size_t pairs = a->dims / 2, padded = (pairs + 7) / 8 * 8;
  float *cosine = a->scratch, *sine = cosine + padded + 8; /* of each pair; 4 after the last one are read */
  float *twice_c = sine + padded + 8, *twice_s = twice_c + 2 * padded; /* of each element; -sin at even ones */
  static const float signs[8] = {-1, 1, -1, 1, -1, 1, -1, 1};
  const v8 alternate = v8_load(signs), zero = v8_set(0);
  const d8 magnitude = d8_set((double)a->magnitude);
  for (size_t t = 0; t < a->tokens; t++) {
    int32_t position;
    memcpy(&position, a->positions + (int64_t)t * a->position_stride, sizeof position);
    for (size_t i = 0; i < padded; i += 8) {
      v8 c, s;
      d8_cos_sin(d8_mul(d8_set(position), d8_load(a->theta + i)), &c, &s);
      v8_store(cosine + i, c);
      v8_store(sine + i, s);
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
          const v8 turned = rope_turned(v, v8_load(twice_c + i), v8_swap_pairs(v), v8_load(twice_s + i), magnitude);
          v8_put(y + 4 * i, turned, a->dims - i);
        }
      } else {
        for (size_t i = 0; i < pairs; i += 8) {
          const v8 u = v8_get(x + 4 * i, pairs - i), v = v8_get(x + 4 * (pairs + i), pairs - i);
          const v8 c = v8_load(cosine + i), s = v8_load(sine + i);
          v8_put(y + 4 * i, rope_turned(u, c, v, v8_sub(zero, s), magnitude), pairs - i);
          v8_put(y + 4 * (pairs + i), rope_turned(u, s, v, c, magnitude), pairs - i);
        }
      }
      if (y != x) memcpy(y + 4 * a->dims, x + 4 * a->dims, 4 * (a->head_dim - a->dims));
    }
  }
}
