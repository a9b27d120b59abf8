/* Attention of a tile of query rows over one chunk of positions, in one pass with a running maximum and sum (Milakov &
 * Gimelshein 2018), ATTEND_BLOCK positions at a time. Blocks of positions begin at multiples of ATTEND_BLOCK, a row
 * uses the keys and values of exactly the positions it sees, and its sums run over positions in ascending order. So the
 * result of a row does not depend on the other rows of its tile. */
#ifndef DENSE
#error "parameters: the vectors v8 and d8 and DENSE, the names of functions, of dense/vec_<set>.h"
#endif

#define ATTEND_BLOCK SKEEP_ATTEND_BLOCK
#define ATTEND_SCORES (ATTEND_BLOCK + 8) /* floats in a row of scores; a group of four keys may end after the block */
#define ATTEND_INLINE static inline __attribute__((always_inline))

/* vw: WIDE times eight lanes, which belong to as many query rows in scores and to one row elsewhere; so sums have the
 * same order, and results the same bits, whatever WIDE is. WIDE_VECTORS of them times four keys fit into registers. An
 * instruction set with registers of more than eight lanes defines them in its dense/vec_<set>.h. */
#ifndef WIDE
#define WIDE 1
#define WIDE_VECTORS 2
typedef v8 vw;
static inline vw vw_set(float x) { return v8_set(x); }
static inline vw vw_load(const void *p) { return v8_load(p); }
static inline void vw_store(void *p, vw x) { v8_store(p, x); }
static inline vw vw_load_f16(const void *p) { return v8_load_f16(p); }
static inline vw vw_load_bf16(const void *p) { return v8_load_bf16(p); }
static inline vw vw_repeat(v8 x) { return x; } /* for each row */
static inline vw vw_fma(vw a, vw b, vw c) { return v8_fma(a, b, c); }
/* The sums of four vectors, for each row; those of the next row `stride` floats further. */
static inline void vw_sum4(vw a, vw b, vw c, vw d, float *to, size_t stride) {
  (void)stride;
  v8_sum4(a, b, c, d, to);
}
#endif

/* Keys or values of one block: row j at base + (j - first) * stride. */
struct attend_rows {
  const char *base;
  int64_t stride;
  size_t first;
};

/* Eight elements from element i on; encoding is a constant wherever this is inlined. */
ATTEND_INLINE v8 attend_load(const char *p, size_t i, const uint32_t encoding) {
  if (encoding == SKEEP_F16) return v8_load_f16(p + 2 * i);
  if (encoding == SKEEP_BF16) return v8_load_bf16(p + 2 * i);
  return v8_load(p + 4 * i);
}

/* WIDE times eight of them. */
ATTEND_INLINE vw attend_load_wide(const char *p, size_t i, const uint32_t encoding) {
  if (encoding == SKEEP_F16) return vw_load_f16(p + 2 * i);
  if (encoding == SKEEP_BF16) return vw_load_bf16(p + 2 * i);
  return vw_load(p + 4 * i);
}

/* Where the eight elements from d on of query row r are: those of WIDE rows follow each other. */
ATTEND_INLINE float *attend_query(float *q, size_t r, size_t d, size_t dim) {
  return q + r / WIDE * WIDE * dim + d * WIDE + r % WIDE * 8;
}

/* Scores of `vectors` (a constant) times WIDE query rows with the four keys from j on. Keys from `end` on repeat the
 * last one. */
ATTEND_INLINE void attend_dots(const size_t vectors, const float *q, size_t dim, struct attend_rows k, size_t j,
                               size_t end, float *scores, const uint32_t encoding) {
  const char *key[4];
  vw sum[WIDE_VECTORS][4];
  for (size_t c = 0; c < 4; c++)
    key[c] = k.base + (int64_t)((j + c < end ? j + c : end - 1) - k.first) * k.stride;
  for (size_t i = 0; i < vectors; i++)
    for (size_t c = 0; c < 4; c++) sum[i][c] = vw_set(0);
  for (size_t d = 0; d < dim; d += 8)
    for (size_t c = 0; c < 4; c++) {
      const vw x = vw_repeat(attend_load(key[c], d, encoding));
      for (size_t i = 0; i < vectors; i++) sum[i][c] = vw_fma(vw_load(q + WIDE * (i * dim + d)), x, sum[i][c]);
    }
  for (size_t i = 0; i < vectors; i++)
    vw_sum4(sum[i][0], sum[i][1], sum[i][2], sum[i][3], scores + WIDE * i * ATTEND_SCORES + j, ATTEND_SCORES);
}
/* rows: a multiple of WIDE. */
ATTEND_INLINE void attend_scores(size_t rows, const float *q, size_t dim, struct attend_rows k, size_t begin,
                                 size_t end, float *scores, const uint32_t encoding) {
  for (size_t j = begin; j < end; j += 4) {
    size_t r = 0;
    for (; r + WIDE_VECTORS * WIDE <= rows; r += WIDE_VECTORS * WIDE)
      attend_dots(WIDE_VECTORS, q + r * dim, dim, k, j, end, scores + r * ATTEND_SCORES, encoding);
    for (; r < rows; r += WIDE) attend_dots(1, q + r * dim, dim, k, j, end, scores + r * ATTEND_SCORES, encoding);
  }
}

/* acc[rows][lanes] += weights[rows][begin .. end) * values, for `count` vectors of `wide` (constants all) times eight
 * lanes. */
ATTEND_INLINE void attend_lanes(const size_t rows, const size_t count, const size_t wide, const float *weights,
                                struct attend_rows v, size_t begin, size_t end, size_t d, size_t dim, float *acc,
                                const uint32_t encoding) {
  if (wide == WIDE) {
    vw sum[4][4];
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < count; c++) sum[r][c] = vw_load(acc + r * dim + d + 8 * WIDE * c);
    for (size_t j = begin; j < end; j++) {
      const char *value = v.base + (int64_t)(j - v.first) * v.stride;
      vw x[4];
      for (size_t c = 0; c < count; c++) x[c] = attend_load_wide(value, d + 8 * WIDE * c, encoding);
      for (size_t r = 0; r < rows; r++) {
        const vw w = vw_set(weights[r * ATTEND_SCORES + j]);
        for (size_t c = 0; c < count; c++) sum[r][c] = vw_fma(w, x[c], sum[r][c]);
      }
    }
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < count; c++) vw_store(acc + r * dim + d + 8 * WIDE * c, sum[r][c]);
    return;
  }
  v8 sum[4]; /* one vector of eight lanes */
  for (size_t r = 0; r < rows; r++) sum[r] = v8_load(acc + r * dim + d);
  for (size_t j = begin; j < end; j++) {
    const v8 x = attend_load(v.base + (int64_t)(j - v.first) * v.stride, d, encoding);
    for (size_t r = 0; r < rows; r++) sum[r] = v8_fma(v8_set(weights[r * ATTEND_SCORES + j]), x, sum[r]);
  }
  for (size_t r = 0; r < rows; r++) v8_store(acc + r * dim + d, sum[r]);
}
/* All lanes of `rows` (a constant) rows, `most` (a constant) vectors at a time. */
ATTEND_INLINE void attend_group(const size_t rows, const size_t most, const float *weights, struct attend_rows v,
                                size_t begin, size_t end, size_t dim, float *acc, const uint32_t encoding) {
  if (begin >= end) return;
  size_t d = 0;
  for (; d + most * WIDE * 8 <= dim; d += most * WIDE * 8)
    attend_lanes(rows, most, WIDE, weights, v, begin, end, d, dim, acc, encoding);
  for (; d + WIDE * 8 <= dim; d += WIDE * 8)
    attend_lanes(rows, 1, WIDE, weights, v, begin, end, d, dim, acc, encoding);
  for (; WIDE > 1 && d < dim; d += 8) attend_lanes(rows, 1, 1, weights, v, begin, end, d, dim, acc, encoding);
}
/* Takes four rows at once over the positions that all four see, and each row alone over its other positions. */
ATTEND_INLINE void attend_values(size_t rows, const float *weights, const uint16_t *from, const uint16_t *to,
                                 struct attend_rows v, size_t dim, float *acc, const uint32_t encoding) {
  for (size_t r = 0; r < rows;) {
    const size_t group = rows - r >= 4 ? 4 : 1;
    size_t begin = from[r], end = to[r];
    for (size_t i = 1; i < group; i++) {
      if (from[r + i] > begin) begin = from[r + i];
      if (to[r + i] < end) end = to[r + i];
    }
    if (group == 1 || begin >= end) begin = end = ATTEND_BLOCK; /* nothing in common: each row alone */
    for (size_t i = r; i < r + group; i++)
      attend_group(1, 4, weights + i * ATTEND_SCORES, v, from[i], to[i] < begin ? to[i] : begin, dim, acc + i * dim,
                   encoding);
    if (begin < end) {
      attend_group(4, WIDE_VECTORS, weights + r * ATTEND_SCORES, v, begin, end, dim, acc + r * dim, encoding);
      for (size_t i = r; i < r + group; i++)
        attend_group(1, 4, weights + i * ATTEND_SCORES, v, end, to[i], dim, acc + i * dim, encoding);
    }
    r += group;
  }
}

_Static_assert(SKEEP_ATTEND_BLOCK <= 64, "a bit for each position of a block");

/* Bit j of the result is set when the product q.k number j, in [begin, end), is not finite. Other elements may be
 * anything. */
static inline uint64_t attend_overflowed(const float *products, size_t begin, size_t end) {
  v8 difference = v8_set(0);
  for (size_t j = begin / 8 * 8; j < end; j += 8) {
    const v8 x = v8_load(products + j);
    difference = v8_add(difference, v8_sub(x, x)); /* 0 or NaN */
  }
  uint64_t which = 0;
  if (v8_sum(difference) == 0) return which;
  for (size_t j = begin; j < end; j++) which |= (uint64_t)!isfinite(products[j]) << j;
  return which;
}

/* Computes a score in double, where no product of floats overflows; used when q.k is not finite in float. q: as
 * attend_query gives the first elements. */
static __attribute__((noinline, cold)) float attend_score(const float *q, const char *key, size_t dim, float scale,
                                                          float softcap, const uint32_t encoding) {
  double product = 0;
  for (size_t d = 0; d < dim; d += 8) {
    float k[8];
    v8_store(k, attend_load(key, d, encoding));
    for (size_t i = 0; i < 8; i++) product += (double)q[WIDE * d + i] * (double)k[i];
  }
  const double score = (double)scale * product;
  return (float)(softcap > 0 ? (double)softcap * tanh(score / (double)softcap) : score);
}

/* Turns the products q.k in [begin, end) of one row into scores. Other elements of the same vectors become -inf. */
ATTEND_INLINE void attend_scale(float *scores, const float *q, size_t dim, struct attend_rows k, size_t begin, size_t end,
                                float scale, float softcap, const uint32_t encoding) {
  const uint64_t overflowed = attend_overflowed(scores, begin, end);
  const v8 low = v8_set(-INFINITY);
  for (size_t j = begin / 8 * 8; j < end; j += 8) {
    v8 s = v8_mul(v8_load(scores + j), v8_set(scale));
    if (softcap > 0) s = v8_mul(v8_set(softcap), v8_tanh(v8_div(s, v8_set(softcap))));
    const v8 lane = v8_add(v8_lanes(), v8_set((float)j));
    v8_store(scores + j, v8_if_less(lane, v8_set((float)begin), low, v8_if_less(lane, v8_set((float)end), s, low)));
  }
  for (size_t j = begin; overflowed && j < end; j++)
    if (overflowed >> j & 1)
      scores[j] = attend_score(q, k.base + (int64_t)(j - k.first) * k.stride, dim, scale, softcap, encoding);
}

/* Turns the scores in [begin, end) of one row into weights times shrink. Adds the weights, without shrink, to sums.
 * *max_score is the running maximum. Returns the factor by which earlier sums must be multiplied. A maximum of -inf
 * (only -inf so far) counts as 0, so that such scores have weight 0. */
static inline float attend_weights(float *scores, size_t begin, size_t end, float shrink, float *max_score, float *sums) {
  const size_t aligned = begin / 8 * 8;
  v8 largest = v8_set(*max_score);
  for (size_t j = aligned; j < end; j += 8) largest = v8_max(v8_load(scores + j), largest);
  const float old = *max_score, now = v8_largest(largest), base = now == -INFINITY ? 0 : now;
  v8 sum = v8_load(sums);
  float factor = 1;
  if (old != now) {
    factor = v8_largest(v8_exp(v8_set(old - base)));
    sum = v8_mul(sum, v8_set(factor));
  }
  for (size_t j = aligned; j < end; j += 8) {
    const v8 w = v8_exp(v8_sub(v8_load(scores + j), v8_set(base)));
    v8_store(scores + j, v8_mul(w, v8_set(shrink)));
    sum = v8_add(sum, w);
  }
  v8_store(sums, sum);
  *max_score = now;
  return factor;
}

/* F32 copies, padded with 0 to whole lanes, of the cache's rows at the positions first + begin .. first + end. */
ATTEND_INLINE void attend_widen(const char *cache, int64_t slot_stride, int64_t capacity, int64_t first, size_t begin,
                                size_t end, size_t n, size_t dim, float *out, const uint32_t encoding) {
  const size_t size = encoding == SKEEP_F32 ? 4 : 2;
  int64_t slot = (first + (int64_t)begin) % capacity;
  for (size_t j = begin; j < end; j++, slot = slot + 1 < capacity ? slot + 1 : 0) {
    const char *in = cache + slot * slot_stride;
    float *row = out + j * dim;
    size_t d = 0;
    for (; d + 8 * WIDE <= n; d += 8 * WIDE) vw_store(row + d, attend_load_wide(in, d, encoding));
    for (; WIDE > 1 && d + 8 <= n; d += 8) v8_store(row + d, attend_load(in, d, encoding));
    if (d == n) continue;
    char rest[32] = {0};
    memcpy(rest, in + d * size, (n - d) * size);
    v8_store(row + d, attend_load(rest, 0, encoding));
  }
}

ATTEND_INLINE void attend_tile(const struct skeep_attend_tile *a, const uint32_t encoding) {
  const size_t rows = a->tokens * a->heads, whole = (rows + WIDE - 1) / WIDE * WIDE; /* with a row of zeros */
  const size_t k_dim = (a->k_dim + 7) / 8 * 8, v_dim = (a->v_dim + 7) / 8 * 8;
  float *q = a->scratch, *scores = q + whole * k_dim, *sums = scores + whole * ATTEND_SCORES;
  float *keys = sums + rows * 8, *values = keys + ATTEND_BLOCK * k_dim;
  uint16_t from[SKEEP_ATTEND_ROWS], to[SKEEP_ATTEND_ROWS];
  int64_t first = a->end, last = a->begin;
  for (size_t t = 0; t < a->tokens; t++) {
    if (a->lo[t] < first) first = a->lo[t];
    if (a->hi[t] > last) last = a->hi[t];
    for (size_t h = 0; h < a->heads; h++) {
      const size_t r = t * a->heads + h;
      const char *in = a->q + (int64_t)t * a->q_token + (int64_t)h * a->q_head;
      for (size_t d = 0; d < k_dim; d += 8) v8_store(attend_query(q, r, d, k_dim), v8_get(in + 4 * d, a->k_dim - d));
      a->max_score[r] = -INFINITY;
      v8_store(sums + r * 8, v8_set(0));
    }
  }
  for (size_t d = 0; rows < whole && d < k_dim; d += 8) v8_store(attend_query(q, rows, d, k_dim), v8_set(0));
  memset(a->acc, 0, rows * v_dim * sizeof(float));
  if (first < a->begin) first = a->begin;
  if (last > a->end) last = a->end;
  for (int64_t block = first / ATTEND_BLOCK * ATTEND_BLOCK; block < last; block += ATTEND_BLOCK) {
    size_t begin = ATTEND_BLOCK, end = 0;
    for (size_t r = 0; r < rows; r++) {
      const int64_t lo = a->lo[r / a->heads] - block, hi = a->hi[r / a->heads] - block;
      from[r] = (uint16_t)(lo < 0 ? 0 : lo > ATTEND_BLOCK ? ATTEND_BLOCK : lo);
      to[r] = (uint16_t)(hi < 0 ? 0 : hi > ATTEND_BLOCK ? ATTEND_BLOCK : hi);
      if (from[r] >= to[r]) continue;
      if (from[r] < begin) begin = from[r];
      if (to[r] > end) end = to[r];
    }
    if (begin >= end) continue;
    const int64_t slot = (block + (int64_t)begin) % a->capacity;
    const int straight = k_dim == a->k_dim && v_dim == a->v_dim && slot + (int64_t)(end - begin) <= a->capacity;
    /* With many rows it pays to convert the whole block to F32 once. */
    const int in_place = straight && (encoding == SKEEP_F32 || rows < 8);
    struct attend_rows k = {a->k + slot * a->k_slot, a->k_slot, begin}, v = {a->v + slot * a->v_slot, a->v_slot, begin};
    if (in_place) {
      attend_scores(whole, q, k_dim, k, begin, end, scores, encoding);
    } else {
      attend_widen(a->k, a->k_slot, a->capacity, block, begin, end, a->k_dim, k_dim, keys, encoding);
      attend_widen(a->v, a->v_slot, a->capacity, block, begin, end, a->v_dim, v_dim, values, encoding);
      k = (struct attend_rows){(const char *)keys, (int64_t)(k_dim * sizeof(float)), 0};
      v = (struct attend_rows){(const char *)values, (int64_t)(v_dim * sizeof(float)), 0};
      attend_scores(whole, q, k_dim, k, begin, end, scores, SKEEP_F32);
    }
    for (size_t r = 0; r < rows; r++) {
      if (from[r] >= to[r]) continue;
      float *row = scores + r * ATTEND_SCORES;
      if (in_place)
        attend_scale(row, attend_query(q, r, 0, k_dim), k_dim, k, from[r], to[r], a->scale, a->softcap, encoding);
      else
        attend_scale(row, attend_query(q, r, 0, k_dim), k_dim, k, from[r], to[r], a->scale, a->softcap, SKEEP_F32);
      const float factor = attend_weights(row, from[r], to[r], a->shrink, a->max_score + r, sums + r * 8);
      float *acc = a->acc + r * v_dim;
      if (factor != 1)
        for (size_t d = 0; d < v_dim; d += 8) v8_store(acc + d, v8_mul(v8_load(acc + d), v8_set(factor)));
    }
    if (in_place)
      attend_values(rows, scores, from, to, v, v_dim, a->acc, encoding);
    else
      attend_values(rows, scores, from, to, v, v_dim, a->acc, SKEEP_F32);
  }
  for (size_t r = 0; r < rows; r++) a->sum[r] = v8_sum(v8_load(sums + r * 8));
}

void DENSE(attend_f32)(const struct skeep_attend_tile *a) { attend_tile(a, SKEEP_F32); }
void DENSE(attend_f16)(const struct skeep_attend_tile *a) { attend_tile(a, SKEEP_F16); }
void DENSE(attend_bf16)(const struct skeep_attend_tile *a) { attend_tile(a, SKEEP_BF16); }
