/* What the core says of itself: sizes of the ABI, sentences, encodings, kernels, selection. */
#include "check.h"

#include <stddef.h>

static void test_abi(void) {
  CHECK(skeep_abi_version() == SKEEP_ABI_VERSION && SKEEP_ABI_VERSION >> 16 == 1);
  CHECK(sizeof(skeep_status) == 16 && sizeof(skeep_order) == 4 && sizeof(skeep_storage) == 16);
  CHECK(sizeof(skeep_layout) == 88 && offsetof(skeep_layout, stride) == 32 && offsetof(skeep_layout, block) == 72);
  CHECK(sizeof(skeep_view) == 160 && offsetof(skeep_view, dtype) == 44 && offsetof(skeep_view, layout) == 48);
  CHECK(sizeof(skeep_storage_info) == 48 && sizeof(skeep_counters) == 40);
  CHECK(sizeof(skeep_rope_params) == 40 && sizeof(skeep_attend_params) == 16);
  CHECK(sizeof(skeep_encoding_info) == 24 + sizeof(void *) && sizeof(skeep_kernel_info) == 24 + sizeof(void *));
}

static void test_sentences(void) {
  static const struct {
    skeep_status status;
    const char *part;
  } cases[] = {
      {{SKEEP_OK, -1, 0}, "ok"},
      {{SKEEP_ERR_CLOSED, 2, 77}, "operand 2: storage 77"},
      {{SKEEP_ERR_BUSY, -1, 3}, "3 pins"},
      {{SKEEP_ERR_BOUNDS, 0, 4096}, "4096"},
      {{SKEEP_ERR_FORMAT, 1, SKEEP_ENC_Q4_K}, "Q4_K"},
      {{SKEEP_ERR_NO_KERNEL, 1, (uint64_t)SKEEP_ENC_Q4_0 << 32 | SKEEP_OP_MATMUL_T}, "matmul_t on encoding Q4_0"},
      {{SKEEP_ERR_FAULT, -1, 0xabc}, "0xabc"},
      {{12345, -1, 9}, "unknown status 9"},
      {{-5, -1, 9}, "unknown status"},
  };
  char text[200], small[8];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const size_t n = skeep_status_text(cases[i].status, text, sizeof text);
    CHECK(n == strlen(text) && strstr(text, cases[i].part));
    if (!strstr(text, cases[i].part)) fprintf(stderr, "  %s\n", text);
    CHECK(skeep_status_text(cases[i].status, small, sizeof small) == n && strlen(small) < sizeof small);
    CHECK(!strncmp(small, text, strlen(small)));
    CHECK(skeep_status_text(cases[i].status, NULL, 0) == n);
  }
  /* Every code has a sentence of its own. */
  for (int32_t code = SKEEP_OK; code <= SKEEP_ERR_READONLY; code++) {
    skeep_status_text((skeep_status){code, -1, 0}, text, sizeof text);
    CHECK(!strstr(text, "unknown status"));
  }
}

static void test_encodings(void) {
  skeep_encoding_info e;
  int q4_k = 0, a8 = 0;
  const size_t count = skeep_encoding_count();
  CHECK(count > 40);
  for (size_t i = 0; i < count; i++) {
    if (!CHECK_OK(skeep_encoding_at(i, &e))) continue;
    CHECK(e.name && e.name[0] && !e.reserved);
    CHECK(!(e.flags & SKEEP_ENC_FLAG_RETIRED) == (e.block_elements > 0));
    q4_k += e.id == SKEEP_ENC_Q4_K && !strcmp(e.name, "Q4_K") && e.block_elements == 256 && e.block_bytes == 144;
    a8 += e.id == SKEEP_ENC_A8 && (e.flags & SKEEP_ENC_FLAG_ACTIVATION) && e.block_bytes == 160;
  }
  CHECK(q4_k == 1 && a8 == 1);
  CHECK_FAILS(skeep_encoding_at(count, &e), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_encoding_at(0, NULL), SKEEP_ERR_ARGUMENT);
}

static void test_kernels(void) {
  skeep_kernel_info k;
  const size_t count = skeep_kernel_count();
  const uint32_t isa = skeep_isa();
  int runnable = 0;
  CHECK(count > 50);
  CHECK(!strcmp(skeep_isa_name(SKEEP_ISA_PORTABLE), "portable") && !strcmp(skeep_isa_name(SKEEP_ISA_AVX2), "avx2"));
  CHECK(skeep_isa_name(isa)[0] && skeep_isa_name(99)[0]);
  CHECK(!strcmp(skeep_op_name(SKEEP_OP_MATMUL_T), "matmul_t") && skeep_op_name(9999)[0]);
  for (size_t i = 0; i < count; i++) {
    if (!CHECK_OK(skeep_kernel_at(i, &k))) continue;
    CHECK(!strncmp(k.name, "skeep_", 6) && strstr(k.name, skeep_op_name(k.op)) && !k.reserved);
    CHECK(k.isa != SKEEP_ISA_PORTABLE || k.runnable);
    if (isa == SKEEP_ISA_PORTABLE) CHECK(k.runnable == (k.isa == SKEEP_ISA_PORTABLE));
    runnable += k.runnable != 0;
  }
  CHECK(runnable > 40);
  CHECK_FAILS(skeep_kernel_at(count, &k), SKEEP_ERR_ARGUMENT);
}

static void test_select(void) {
  static const int64_t x_shape[] = {2, 96}, w_shape[] = {3, 96}, y_shape[] = {2, 3};
  skeep_storage s[4];
  skeep_kernel_info k;
  uint32_t row = 0;
  skeep_view x = check_new(SKEEP_F32, 2, x_shape, &s[0]), a = check_new(SKEEP_ENC_A8, 2, x_shape, &s[1]);
  skeep_view w = check_new(SKEEP_ENC_Q8_0, 2, w_shape, &s[2]), y = check_new(SKEEP_F32, 2, y_shape, &s[3]);
  const skeep_view *operands[] = {&x, &w, &y};
  CHECK_OK(skeep_select(SKEEP_OP_MATMUL_T, operands, 3, &row));
  CHECK_OK(skeep_kernel_at(row, &k));
  CHECK(k.op == SKEEP_OP_MATMUL_T && k.encoding == SKEEP_ENC_Q8_0 && k.activation == SKEEP_F32 && k.runnable);
  operands[0] = &a;
  CHECK_OK(skeep_select(SKEEP_OP_MATMUL_T, operands, 2, &row)); /* the output chooses nothing */
  CHECK_OK(skeep_kernel_at(row, &k));
  CHECK(k.activation == SKEEP_ENC_A8 && k.runnable);
  operands[0] = &w; /* Q8_0 as activation */
  CHECK_FAILS_ON(skeep_select(SKEEP_OP_MATMUL_T, operands, 3, &row), SKEEP_ERR_FORMAT, 0);
  operands[0] = &x;
  w.layout.stride[1] = 0; /* the same block again and again: no gap-free row */
  CHECK_FAILS_ON(skeep_select(SKEEP_OP_MATMUL_T, operands, 3, &row), SKEEP_ERR_LAYOUT, 1);
  operands[1] = NULL;
  CHECK_FAILS_ON(skeep_select(SKEEP_OP_MATMUL_T, operands, 3, &row), SKEEP_ERR_ARGUMENT, 1);
  CHECK_FAILS(skeep_select(SKEEP_OP_PREPACK, operands, 2, &row), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_select(9999, operands, 3, &row), SKEEP_ERR_ARGUMENT);
  CHECK_FAILS(skeep_select(SKEEP_OP_MATMUL_T, NULL, 3, &row), SKEEP_ERR_ARGUMENT);
  for (int i = 0; i < 4; i++) CHECK_OK(skeep_storage_close(s[i], NULL));
}

int main(void) {
  test_abi();
  test_sentences();
  test_encodings();
  test_kernels();
  test_select();
  return check_result();
}
