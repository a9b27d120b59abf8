/* Products with weights in a mapped file, exact and integer, with several numbers of threads. They are compared with
 * sums that this program computes from the codes it wrote. */
#include "check.h"

#include <math.h>
#include <unistd.h>

#define TOKENS 5
#define ROWS 67
#define N 160 /* five blocks a row: no group of 128 activations is whole */
#define BLOCKS (N / 32)
#define HEAD 4097 /* bytes before the weights: they begin at an odd address */

static double weight[ROWS][N], minimum[ROWS][N]; /* scale * code, and of it what does not depend on the code */

/* One half per block that is a power of two times 1, 1.25, 1.5 or 1.75. */
static uint16_t half_of(uint64_t *random, double *value) {
  const uint32_t mantissa = check_random(random) % 4, exponent = 8 + check_random(random) % 4;
  *value = ldexp(1 + mantissa / 4.0, (int)exponent - 15);
  return (uint16_t)(exponent << 10 | mantissa << 8);
}

/* Blocks as GGUF has them: a half, then 32 codes of 4 bits minus 8 (low nibbles first), or of 8 bits. */
static size_t write_weights(uint32_t encoding, unsigned char *to) {
  uint64_t random = 7 + encoding;
  unsigned char *at = to;
  for (int o = 0; o < ROWS; o++)
    for (int b = 0; b < BLOCKS; b++) {
      double d;
      const uint16_t half = half_of(&random, &d);
      int code[32];
      memcpy(at, &half, 2), at += 2;
      for (int i = 0; i < 32; i++)
        code[i] = encoding == SKEEP_ENC_Q4_0 ? (int)(check_random(&random) % 16) - 8 : (int)(check_random(&random) % 256) - 128;
      if (encoding == SKEEP_ENC_Q4_0)
        for (int i = 0; i < 16; i++) *at++ = (unsigned char)((code[i] + 8) | (code[i + 16] + 8) << 4);
      else
        for (int i = 0; i < 32; i++) *at++ = (unsigned char)code[i];
      for (int i = 0; i < 32; i++) {
        weight[o][b * 32 + i] = d * code[i];
        minimum[o][b * 32 + i] = encoding == SKEEP_ENC_Q4_0 ? -8 * d : 0;
      }
    }
  return (size_t)(at - to);
}

/* y against the sum over x, within `unit` of the terms before they cancel. */
static int agrees(const skeep_view *y, double x[TOKENS][N], double unit) {
  for (int t = 0; t < TOKENS; t++)
    for (int o = 0; o < ROWS; o++) {
      double sum = 0, terms = 0;
      for (int i = 0; i < N; i++) {
        sum += x[t][i] * weight[o][i];
        terms += fabs(x[t][i]) * (fabs(weight[o][i] - minimum[o][i]) + fabs(minimum[o][i]));
      }
      if (!(fabs(check_floats(y)[t * ROWS + o] - sum) <= unit * terms)) return 0;
    }
  return 1;
}

static const int64_t x_shape[] = {TOKENS, N}, w_shape[] = {ROWS, N}, y_shape[] = {TOKENS, ROWS};

static void test_encoding(uint32_t encoding) {
  static unsigned char file[HEAD + ROWS * BLOCKS * 34];
  static double exact_x[TOKENS][N], coded_x[TOKENS][N];
  static float first_exact[TOKENS * ROWS], first_integer[TOKENS * ROWS];
  uint64_t random = 3;
  skeep_storage sw, sx, sa, sy;
  skeep_view w;
  const size_t bytes = write_weights(encoding, file + HEAD);
  const int fd = check_file(file, HEAD + bytes);
  NEED(skeep_storage_map(fd, HEAD, bytes, &sw).code == SKEEP_OK);
  close(fd);
  NEED(skeep_view_of(sw, 0, encoding, 2, w_shape, &w).code == SKEEP_OK);
  CHECK(w.data % 2 == 1);
  skeep_view x = check_new(SKEEP_F32, 2, x_shape, &sx), a = check_new(SKEEP_ENC_A8, 2, x_shape, &sa);
  skeep_view y = check_new(SKEEP_F32, 2, y_shape, &sy);
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i < N; i++) exact_x[t][i] = check_floats(&x)[t * N + i] = check_float(&random);

  static const uint32_t threads[] = {1, 2, 5};
  for (int k = 0; k < 3; k++) {
    skeep_pool *pool;
    NEED(skeep_pool_create(threads[k], 0, &pool).code == SKEEP_OK);
    CHECK_OK(skeep_matmul_t(pool, NULL, &x, &w, &y));
    CHECK(agrees(&y, exact_x, N * ldexp(1, -24)));
    if (!k) memcpy(first_exact, check_floats(&y), sizeof first_exact);
    CHECK(!memcmp(first_exact, check_floats(&y), sizeof first_exact)); /* whatever the number of threads */

    /* The integer product, against the same codes. */
    CHECK_OK(skeep_quantize_rows(pool, NULL, &x, &a));
    for (int t = 0; t < TOKENS; t++)
      for (int i = 0; i < N; i++) {
        CHECK_OK(skeep_get(&a, (const int64_t[]){t, i}, &coded_x[t][i]));
        CHECK(fabs(coded_x[t][i] - exact_x[t][i]) <= 0.5001 / 127);
      }
    CHECK_OK(skeep_matmul_t(pool, NULL, &a, &w, &y));
    CHECK(agrees(&y, coded_x, ldexp(1, -20)));
    if (!k) memcpy(first_integer, check_floats(&y), sizeof first_integer);
    CHECK(!memcmp(first_integer, check_floats(&y), sizeof first_integer));
    CHECK(memcmp(first_exact, first_integer, sizeof first_exact)); /* they are two products */

    /* The comparison sees one wrong weight. */
    weight[ROWS - 1][N - 1] += 0.05 * (1 + fabs(weight[ROWS - 1][N - 1]));
    CHECK(!agrees(&y, coded_x, ldexp(1, -20)));
    (void)write_weights(encoding, file + HEAD);

    CHECK_FAILS_ON(skeep_matmul_t(pool, NULL, &x, &w, &w), SKEEP_ERR_READONLY, 2);
    CHECK_FAILS_ON(skeep_matmul_t(pool, NULL, &y, &w, &y), SKEEP_ERR_OVERLAP, 2);
    CHECK_FAILS_ON(skeep_matmul_t(pool, NULL, &y, &w, &x), SKEEP_ERR_SHAPE, 1);
    CHECK_FAILS(skeep_matmul_t(NULL, NULL, &x, &w, &y), SKEEP_ERR_ARGUMENT);
    skeep_pool_destroy(pool);
  }
  CHECK_OK(skeep_storage_close(sw, NULL));
  CHECK_OK(skeep_storage_close(sx, NULL));
  CHECK_OK(skeep_storage_close(sa, NULL));
  CHECK_OK(skeep_storage_close(sy, NULL));
}

int main(void) {
  test_encoding(SKEEP_ENC_Q4_0);
  test_encoding(SKEEP_ENC_Q8_0);
  return check_result();
}
