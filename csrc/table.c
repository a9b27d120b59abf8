/* The kernel table, from kernels.def, and what looks into it. */
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

/* The public number of each isa word. */
enum {
  ISA_PORTABLE = SKEEP_ISA_PORTABLE,
  ISA_AVX2 = SKEEP_ISA_AVX2,
  ISA_AVX512 = SKEEP_ISA_AVX512,
  ISA_NEON = SKEEP_ISA_NEON,
  ISA_NEON_DOTPROD = SKEEP_ISA_NEON,
  ISA_NEON_I8MM = SKEEP_ISA_NEON
};

/* The last row is a sentinel that no query matches: an array of no rows would not be C. */
static struct skeep_kernel table[] = {
#define SKEEP_KERNEL(op, encoding, activation, family, panel, isa, body)                                             \
  {{SKEEP_OPID_##op, ISA_##isa, encoding, activation, {family, panel, 0, 0}, SKEEP_FEATURE_##isa, 0, "skeep_" #body}, \
   BODY_##isa(skeep_##body)},
#include "kernels.def"
#undef SKEEP_KERNEL
    {{0, 0, 0, 0, {0, 0, 0, 0}, 0, 0, ""}, NULL}};
#define ROWS (sizeof table / sizeof table[0] - 1)

static const char *const op_names[] = {
    [SKEEP_OP_DECODE] = "decode",     [SKEEP_OP_QUANTIZE_ROWS] = "quantize_rows",
    [SKEEP_OP_CONVERT] = "convert",   [SKEEP_OP_PREPACK] = "prepack",
    [SKEEP_OP_MATMUL_T] = "matmul_t", [SKEEP_OP_EMBED] = "embed",
    [SKEEP_OP_NORM] = "norm",         [SKEEP_OP_ROPE] = "rope",
    [SKEEP_OP_KV_STORE] = "kv_store", [SKEEP_OP_ATTEND] = "attend",
    [SKEEP_OP_GLU] = "glu",           [SKEEP_OP_ADD] = "add",
    [SKEEP_OP_MUL] = "mul",           [SKEEP_OP_SOFTMAX] = "softmax",
    [SKEEP_OP_SOFTCAP] = "softcap",   [SKEEP_OP_ENCODE] = "encode",
};
#define OPS (sizeof op_names / sizeof op_names[0])

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
    if ((info->activation == activation || info->activation == SKEEP_ANY) && !memcmp(&info->order, &order, sizeof order))
      return i;
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

const char *skeep_op_name(uint32_t op) { return op < OPS && op_names[op] ? op_names[op] : "unknown"; }
