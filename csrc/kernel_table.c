/* The kernel table, generated from kernels.def, and choosing from it. */
#include "internal.h"

#include <pthread.h>

/* Bodies of another architecture are not linked. */
#if defined(__x86_64__)
#define IF_X86(body) (void (*)(void))(body)
#define IF_ARM(body) NULL
#else
#define IF_X86(body) NULL
#define IF_ARM(body) (void (*)(void))(body)
#endif
#define BODY_PORTABLE(body) (void (*)(void))(body)
#define BODY_AVX2(body) IF_X86(body)
#define BODY_AVX512(body) IF_X86(body)
#define BODY_NEON(body) IF_ARM(body)
#define BODY_NEON_DOTPROD(body) IF_ARM(body)
#define BODY_NEON_I8MM(body) IF_ARM(body)

/* The public number of each isa. */
enum {
  ISA_PORTABLE = SKEEP_ISA_PORTABLE,
  ISA_AVX2 = SKEEP_ISA_AVX2,
  ISA_AVX512 = SKEEP_ISA_AVX512,
  ISA_NEON = SKEEP_ISA_NEON,
  ISA_NEON_DOTPROD = SKEEP_ISA_NEON,
  ISA_NEON_I8MM = SKEEP_ISA_NEON
};

/* The last row matches no query. It is there because C has no empty arrays. */
static struct skeep_kernel table[] = {
#define SKEEP_ORDER(family, panel, interleave, version) {SKEEP_ORDER_##family, panel, interleave, version}
#define SKEEP_KERNEL(OP, type, encoding, activation, order, isa, body)                                    \
  {{SKEEP_OP_##OP, ISA_##isa, encoding, activation, order, SKEEP_FEATURE_##isa, 0, "skeep_" #body}, \
   BODY_##isa(skeep_##body)},
#include "generated/kernels_table.h"
#undef SKEEP_KERNEL
#undef SKEEP_ORDER
    {{0, 0, 0, 0, {0, 0, 0, 0}, 0, 0, ""}, NULL}};
#define ROWS (sizeof table / sizeof table[0] - 1)

/* The operations, and what a row is chosen by. as: the operation whose rows do the work. key: the operand that gives
 * the encoding, and the order unless any_order, -1 = none; other: the one that gives the activation (or what the table
 * calls so), -1 = rows for any. */
static const struct op {
  const char *name;
  uint8_t as, any_order;
  int8_t key, other;
  uint8_t operands;
} ops[] = {
#define SKEEP_OP(NAME, name, as, any_order, key, other, count, ...) \
  [SKEEP_OP_##NAME] = {#name, SKEEP_OP_##as, any_order, key, other, count},
#include "generated/ops_table.h"
#undef SKEEP_OP
};
#define OPS (sizeof ops / sizeof ops[0])

/* Runnable rows linked per (op, encoding), best first, by 1 + row; 0 ends. Rows for any encoding have a list of
 * their own behind the encodings. */
static uint16_t first[OPS][SKEEP_ENCODING_IDS + 1], next[ROWS + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* While the table is being compiled, info.runnable holds the feature bit that the row needs. */
static void tabulate(void) {
  const uint32_t features = skeep_features();
  for (size_t i = ROWS; i-- > 0;) {
    skeep_kernel_info *info = &table[i].info;
    info->runnable = table[i].body && (features & info->runnable);
    if (!info->runnable) continue;
    const size_t list = info->encoding == SKEEP_ANY ? SKEEP_ENCODING_IDS : info->encoding;
    if (list > SKEEP_ENCODING_IDS) continue;
    next[i] = first[info->op][list];
    first[info->op][list] = (uint16_t)(i + 1);
  }
}

size_t skeep_kernel_count(void) { return ROWS; }

const struct skeep_kernel *skeep_kernel_row(size_t row) {
  pthread_once(&once, tabulate);
  return row < ROWS ? &table[row] : NULL;
}

skeep_status skeep_kernel_at(size_t row, skeep_kernel_info *info) {
  if (!info) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 1);
  const struct skeep_kernel *k = skeep_kernel_row(row);
  if (!k) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  *info = k->info;
  return skeep_ok();
}

/* The first row of a list that fits; 1 + row, 0 for none. */
static uint32_t walk(uint32_t from, uint32_t activation, skeep_order order) {
  for (uint32_t i = from; i; i = next[i - 1]) {
    const skeep_kernel_info *info = &table[i - 1].info;
    const int fits = info->activation == activation || info->activation == SKEEP_ANY;
    if (fits && !memcmp(&info->order, &order, sizeof order)) return i;
  }
  return 0;
}

const struct skeep_kernel *skeep_kernel_find(uint32_t op, uint32_t encoding, uint32_t activation, skeep_order order) {
  pthread_once(&once, tabulate);
  if (op >= OPS || encoding >= SKEEP_ENCODING_IDS) return NULL;
  const uint32_t own = walk(first[op][encoding], activation, order);
  const uint32_t any = walk(first[op][SKEEP_ENCODING_IDS], activation, order);
  const uint32_t best = own && any ? (own < any ? own : any) : own | any; /* earlier in the table = better */
  return best ? &table[best - 1] : NULL;
}

const struct skeep_kernel *skeep_kernel_product(uint32_t encoding, uint32_t activation, skeep_order order, int one) {
  const struct skeep_kernel *best = skeep_kernel_find(SKEEP_OP_MATMUL_T, encoding, activation, order);
  if (!one || !best || activation != SKEEP_ENC_A8) return best;
  const uint32_t isa = order.family == SKEEP_ORDER_ROW_MAJOR ? skeep_machine()->stored : skeep_machine()->feed;
  for (uint32_t i = (uint32_t)(best - table) + 1; i; i = walk(next[i - 1], activation, order))
    if (table[i - 1].info.isa == isa) return &table[i - 1];
  return best;
}

size_t skeep_machine_row(size_t row) {
  const struct skeep_kernel *k = skeep_kernel_row(row);
  if (!k || k->info.op != SKEEP_OP_MATMUL_T) return row;
  const struct skeep_kernel *one = skeep_kernel_product(k->info.encoding, k->info.activation, k->info.order, 1);
  return one ? (size_t)(one - table) : row;
}

const struct skeep_kernel *skeep_kernel_portable(uint32_t op, uint32_t encoding) {
  pthread_once(&once, tabulate);
  if (op >= OPS || encoding >= SKEEP_ENCODING_IDS) return NULL;
  for (uint32_t i = first[op][encoding]; i; i = next[i - 1])
    if (table[i - 1].info.isa == SKEEP_ISA_PORTABLE) return &table[i - 1];
  return NULL;
}

const char *skeep_op_name(uint32_t op) { return op < OPS && ops[op].name ? ops[op].name : "unknown"; }

/* ---- selection ---- */

/* Why no row fits: the first condition that every row of the operation and encoding fails. */
static skeep_status refuse(uint32_t op, const skeep_view *key, int32_t key_at, uint32_t other, int32_t other_at) {
  uint32_t seen = 0, fits = 0;
  for (size_t i = 0; i < ROWS; i++) {
    const skeep_kernel_info *k = &table[i].info;
    if (k->op != op || !k->runnable || (k->encoding != key->encoding && k->encoding != SKEEP_ANY)) continue;
    seen = 1;
    fits |= k->activation == other || k->activation == SKEEP_ANY;
  }
  if (!seen) return skeep_fail(SKEEP_ERR_NO_KERNEL, key_at, (uint64_t)key->encoding << 32 | op);
  if (!fits) return skeep_fail(SKEEP_ERR_FORMAT, other_at, other);
  return skeep_fail(SKEEP_ERR_LAYOUT, key_at, (uint64_t)(int64_t)key->layout.row_axis);
}

int skeep_one_token(const skeep_view *x) {
  for (uint32_t a = 0; a + 1 < x->layout.rank; a++)
    if (x->layout.shape[a] != 1) return 0;
  return 1;
}

skeep_status skeep_select_row(uint32_t op, const skeep_view *const *operands, uint32_t count,
                              const struct skeep_kernel **row) {
  /* Every weight of a project selects as one product does; all must have a row. */
  if (op == SKEEP_OP_PROJECT) {
    if (count < 4 || count > 10 || count % 3 != 1) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
    for (uint32_t i = count / 3; i >= 1; i--) {
      const skeep_view *const product[] = {operands[0], operands[i], operands[2 * (count / 3) + i]};
      skeep_status st = skeep_select_row(SKEEP_OP_MATMUL_T, product, 3, row);
      if (st.operand > 0) st.operand = st.operand == 1 ? (int32_t)i : (int32_t)(2 * (count / 3) + i);
      if (st.code != SKEEP_OK) return st;
    }
    return skeep_ok();
  }
  if (op >= OPS || !ops[op].name || ops[op].key < 0) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  const struct op *s = &ops[op];
  if (count > s->operands || (int32_t)count <= s->key || (int32_t)count <= s->other)
    return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
  const int8_t used[] = {s->key, s->other};
  for (size_t i = 0; i < 2; i++) {
    if (used[i] < 0) continue;
    if (!operands[used[i]]) return skeep_fail(SKEEP_ERR_ARGUMENT, used[i], 0);
  }
  const skeep_view *key = operands[s->key];
  const uint32_t by = s->as, other = s->other < 0 ? SKEEP_ANY : operands[s->other]->encoding;
  const skeep_order order = s->any_order ? (skeep_order){0, 0, 0, 0} : key->layout.order;
  if (by == SKEEP_OP_MATMUL_T)
    *row = skeep_kernel_product(key->encoding, other, order, skeep_one_token(operands[s->other]));
  else
    *row = skeep_kernel_find(by, key->encoding, other, order);
  return *row ? skeep_ok() : refuse(by, key, s->key, other, s->other);
}

skeep_status skeep_select(uint32_t op, const skeep_view *const *operands, uint32_t count, uint32_t *row) {
  const struct skeep_kernel *k;
  if (!operands) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 1);
  if (count > SKEEP_MAX_OPERANDS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
  if (!row) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 3);
  for (uint32_t i = 0; i < count; i++) {
    if (!operands[i]) continue;
    skeep_status st = skeep_view_check(operands[i]);
    st.operand = (int32_t)i;
    if (st.code != SKEEP_OK) return st;
  }
  skeep_status st = skeep_operands_check(op, operands, count);
  if (st.code == SKEEP_OK) st = skeep_select_row(op, operands, count, &k);
  if (st.code == SKEEP_OK) *row = (uint32_t)(k - table);
  return st;
}
