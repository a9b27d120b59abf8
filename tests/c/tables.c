/* Tables and facts of the core: sizes of structs, sentences of statuses, encodings, kernels, selection. */
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

/* Each code, with and without an operand, with each kind of detail. */
static void test_sentences(void) {
#define FIELD(name) offsetof(skeep_view, name)
  static const struct {
    skeep_status status;
    const char *text;
  } cases[] = {
      {{SKEEP_OK, -1, 0}, "ok"},
      {{SKEEP_ERR_CLOSED, -1, 0}, "the storage, or the mark the view was made in, is closed"},
      {{SKEEP_ERR_CLOSED, 2, 1 << 30}, "operand 2: storage 1073741824, or the mark the view was made in, is closed"},
      {{SKEEP_ERR_BUSY, -1, 3}, "storage is in use: 3 pins are held by others"},
      {{SKEEP_ERR_ARGUMENT, -1, 0}, "invalid argument: parameter 0, counted from 0 (rope, attend: byte 0 of the struct of parameters)"},
      {{SKEEP_ERR_ARGUMENT, -1, 4}, "invalid argument: parameter 4, counted from 0 (rope, attend: byte 4 of the struct of parameters)"},
      {{SKEEP_ERR_ARGUMENT, 3, 0}, "operand 3: the view is absent"},
      {{SKEEP_ERR_ARGUMENT, 0, FIELD(cell)}, "operand 0: invalid field of the view: cell"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(layout.block_axis)}, "operand 1: invalid field of the view: layout.block_axis"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(layout.row_axis)}, "operand 1: invalid field of the view: layout.row_axis"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(layout.order.panel)}, "operand 1: invalid field of the view: layout.order.panel"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(layout.order.interleave)}, "operand 1: invalid field of the view: layout.order.interleave"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(layout.offset)}, "operand 1: invalid field of the view: layout.offset"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(layout.reserved)}, "operand 1: invalid field of the view: layout.reserved"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(layout.reserved2)}, "operand 1: invalid field of the view: layout.reserved2"},
      {{SKEEP_ERR_ARGUMENT, 1, FIELD(reserved)}, "operand 1: invalid field of the view: reserved"},
      {{SKEEP_ERR_ARGUMENT, 1, 47000}, "operand 1: invalid field of the view: byte 47000"},
      {{SKEEP_ERR_BOUNDS, 0, 4096}, "operand 0: layout or range reaches outside its bytes: it needs 4096"},
      {{SKEEP_ERR_BOUNDS, -1, UINT64_MAX}, "layout or range reaches outside its bytes, beyond any address"},
      {{SKEEP_ERR_SHAPE, -1, 0}, "shape does not fit the operation (axis 0)"},
      {{SKEEP_ERR_SHAPE, 5, 3}, "operand 5: shape does not fit the operation (axis 3)"},
      {{SKEEP_ERR_FORMAT, 1, SKEEP_ENC_Q4_K}, "operand 1: encoding Q4_K is unknown or not accepted here"},
      {{SKEEP_ERR_FORMAT, -1, 999}, "encoding 999 is unknown or not accepted here"},
      {{SKEEP_ERR_LAYOUT, 0, 0}, "operand 0: strides, block axis or block order are not accepted here (axis 0)"},
      {{SKEEP_ERR_LAYOUT, 0, UINT64_MAX}, "operand 0: block axis or block order is not accepted here"},
      {{SKEEP_ERR_NO_KERNEL, -1, 0}, "this memory domain is not implemented"},
      {{SKEEP_ERR_NO_KERNEL, 1, (uint64_t)SKEEP_ENC_Q4_0 << 32 | SKEEP_OP_MATMUL_T},
       "operand 1: no kernel for operation matmul_t on encoding Q4_0"},
      {{SKEEP_ERR_NO_KERNEL, 1, SKEEP_OP_ATTEND}, "operand 1: no kernel for operation attend on encoding F32"},
      {{SKEEP_ERR_MEMORY, -1, 1 << 20}, "out of memory: 1048576 bytes requested"},
      {{SKEEP_ERR_MEMORY, 1, 64}, "operand 1: the step has no room for another pin: it was created for 64 storages and marks"},
      {{SKEEP_ERR_IO, -1, 9}, "system call failed: errno 9"},
      {{SKEEP_ERR_FAULT, 1, 0xabc}, "operand 1: a mapped page could not be read at address 0xabc (file truncated, or an I/O error)"},
      {{SKEEP_ERR_CHANGED, -1, 1 << 30}, "the file mapped as storage 1073741824 changed since it was mapped"},
      {{SKEEP_ERR_OVERLAP, 2, 0}, "operand 2: output overlaps operand 0"},
      {{SKEEP_ERR_OVERLAP, 2, 2}, "operand 2: output overlaps itself"},
      {{SKEEP_ERR_OVERLAP, -1, UINT64_MAX}, "output overlaps operand 18446744073709551615"},
      {{SKEEP_ERR_INDEX, 1, 7}, "operand 1: index out of range: element 7 of the index data"},
      {{SKEEP_ERR_READONLY, 2, 1 << 30}, "operand 2: output is in read-only storage 1073741824"},
      {{SKEEP_ERR_VALUE, 0, 12}, "operand 0: element 12 is not finite, or too large for the format"},
      {{12345, -1, 9}, "unknown status 12345 (detail 9)"},
      {{-5, -1, 9}, "unknown status -5 (detail 9)"},
      {{INT32_MIN, 4, UINT64_MAX}, "operand 4: unknown status -2147483648 (detail 18446744073709551615)"},
      {{SKEEP_ERR_VALUE + 1, INT32_MAX, 0}, "operand 2147483647: unknown status 17 (detail 0)"},
  };
#undef FIELD
  char text[200], small[8];
  uint32_t seen = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const size_t n = skeep_status_text(cases[i].status, text, sizeof text);
    if (cases[i].status.code >= 0 && cases[i].status.code < 32) seen |= 1u << cases[i].status.code;
    CHECK(n == strlen(text) && !strcmp(text, cases[i].text));
    if (strcmp(text, cases[i].text)) fprintf(stderr, "  %s\n", text);
    CHECK(skeep_status_text(cases[i].status, small, sizeof small) == n && strlen(small) < sizeof small);
    CHECK(!strncmp(small, text, strlen(small)));
    CHECK(skeep_status_text(cases[i].status, NULL, 0) == n);
  }
  CHECK(seen == (1u << (SKEEP_ERR_VALUE + 2)) - 1); /* every code, and the first number after them */
}

/* A name is copied; of a long one the end is kept; sentences contain it; it is known until the slot is used again. */
static void test_names(void) {
  static const int64_t shape[] = {4};
  skeep_storage s, mark;
  char text[400], name[] = "weights.gguf", longest[300];
  const skeep_view v = check_new(SKEEP_F32, 1, shape, &s);
  CHECK(skeep_storage_name(v.storage, text, sizeof text) == 0 && !text[0]);
  CHECK_OK(skeep_storage_set_name(s, name));
  name[0] = 'W';
  CHECK(skeep_storage_name(v.storage, text, sizeof text) == 12 && !strcmp(text, "weights.gguf"));
  CHECK(skeep_storage_name(v.storage, text, 4) == 12 && !strcmp(text, "wei"));
  CHECK(skeep_storage_name(v.storage, NULL, 0) == 12);
  CHECK(skeep_storage_name(0, text, sizeof text) == 0 && skeep_storage_name(UINT64_MAX, text, sizeof text) == 0);
  CHECK_OK(skeep_mark_open(s, &mark));
  CHECK_FAILS(skeep_storage_set_name(mark, "a mark"), SKEEP_ERR_ARGUMENT);
  memset(longest, 'x', sizeof longest);
  memcpy(longest + 299 - 253, "\xc3\xa4", 2); /* the cut would fall into this letter */
  longest[299] = 0;
  CHECK_OK(skeep_storage_set_name(s, longest));
  CHECK(skeep_storage_name(v.storage, text, sizeof text) <= 255);
  CHECK(!strncmp(text, "...", 3) && !strcmp(text + 3, longest + 299 - strlen(text + 3)) && (text[3] & 0xc0) != 0x80);
  CHECK_OK(skeep_storage_set_name(s, NULL));
  CHECK(skeep_storage_name(v.storage, text, sizeof text) == 0);
  CHECK_OK(skeep_storage_set_name(s, "kept"));
  CHECK_OK(skeep_storage_close(s, NULL));
  CHECK_FAILS(skeep_storage_set_name(s, "late"), SKEEP_ERR_CLOSED);
  skeep_status_text(skeep_view_check(&v), text, sizeof text);
  CHECK(strstr(text, "\"kept\", or the mark"));
  skeep_storage other;
  const skeep_view next = check_new(SKEEP_F32, 1, shape, &other); /* in the same slot */
  CHECK(next.cell == v.cell);
  CHECK(skeep_storage_name(v.storage, text, sizeof text) == 0 && skeep_storage_name(next.storage, text, sizeof text) == 0);
  CHECK_OK(skeep_storage_close(other, NULL));
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
  test_names();
  test_encodings();
  test_kernels();
  test_select();
  return check_result();
}
