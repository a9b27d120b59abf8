/* generated from csrc/ops.def by go generate ./go/tensor: one row for each operation.
 * The including file defines SKEEP_OP(NAME, name, as, any_order, key, other, operands, {layouts, role, optional}, ...).
 * as: the operation among whose kernels one is chosen. any_order: the order of the key operand does not matter. key, other: the
 * operands by which the kernel is chosen, -1 = none. operands: how many there are; a description of each follows. */
#define SKEEP_OP_OPERANDS 6 /* max, over all operations */
SKEEP_OP(DECODE, decode, DECODE, 0, -1, -1, 0, {ABSENT, IN, 1})
SKEEP_OP(QUANTIZE_ROWS, quantize_rows, QUANTIZE_ROWS, 0, 0, 1, 2, {ROWS, IN, 0}, {ROWS, OUT, 0})
SKEEP_OP(CONVERT, convert, DECODE, 1, 0, -1, 2, {ANY, IN, 0}, {ANY, OUT, 0})
SKEEP_OP(PREPACK, prepack, PREPACK, 0, -1, -1, 2, {ANY, IN, 0}, {ANY, OUT, 0})
SKEEP_OP(MATMUL_T, matmul_t, MATMUL_T, 0, 1, 0, 3, {EVEN, IN, 0}, {WEIGHT, IN, 0}, {EVEN, OUT, 0})
SKEEP_OP(EMBED, embed, DECODE, 1, 0, -1, 3, {ANY, IN, 0}, {ANY, IN, 0}, {ROWS, OUT, 0})
SKEEP_OP(NORM, norm, NORM, 0, 0, -1, 6, {ROWS, PLACE, 0}, {ROWS, PLACE, 1}, {ROWS, IN, 0}, {ROWS, PLACE, 1}, {ROWS, OUT, 1}, {ROWS, OUT, 0})
SKEEP_OP(ROPE, rope, ROPE, 0, 0, -1, 4, {ROWS, PLACE, 0}, {ANY, IN, 0}, {ANY, IN, 1}, {ROWS, OUT, 0})
SKEEP_OP(KV_STORE, kv_store, KV_STORE, 0, 4, -1, 6, {ROWS, IN, 0}, {ROWS, IN, 0}, {ANY, IN, 0}, {ANY, IN, 1}, {ROWS, OUT, 0}, {ROWS, OUT, 0})
SKEEP_OP(ATTEND, attend, ATTEND, 0, 1, -1, 6, {ROWS, IN, 0}, {ROWS, IN, 0}, {ROWS, IN, 0}, {ANY, IN, 0}, {ANY, IN, 1}, {ROWS, OUT, 0})
SKEEP_OP(GLU, glu, GLU, 0, 0, -1, 3, {ROWS, PLACE, 0}, {ROWS, PLACE, 0}, {ROWS, OUT, 0})
SKEEP_OP(ADD, add, ADD, 0, 0, -1, 3, {ROWS, PLACE, 0}, {ROWS, IN, 0}, {ROWS, OUT, 0})
SKEEP_OP(MUL, mul, MUL, 0, 0, -1, 3, {ROWS, PLACE, 0}, {ROWS, IN, 0}, {ROWS, OUT, 0})
SKEEP_OP(SOFTMAX, softmax, SOFTMAX, 0, 0, -1, 2, {ROWS, PLACE, 0}, {ROWS, OUT, 0})
SKEEP_OP(SOFTCAP, softcap, SOFTCAP, 0, 0, -1, 2, {ROWS, PLACE, 0}, {ROWS, OUT, 0})
SKEEP_OP(ENCODE, encode, ENCODE, 1, 1, -1, 2, {ANY, IN, 0}, {ANY, OUT, 0})
SKEEP_OP(PROJECT, project, MATMUL_T, 0, 1, 0, 4, {EVEN, IN, 0}, {WEIGHT, IN, 0}, {ROWS, IN, 1}, {EVEN, OUT, 0})
