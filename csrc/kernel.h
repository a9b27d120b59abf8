/* The table of kernels, and the features of the processor. Part of internal.h. */
#ifndef SKEEP_KERNEL_H
#define SKEEP_KERNEL_H

/* The table.
 * A row of generated/kernels_table.h is SKEEP_KERNEL(OP, type, encoding, activation, isa, body): OP as in
 * SKEEP_OP_<OP>, type as in skeep_body_<type>; isa one of PORTABLE, AVX2, AVX512, NEON, NEON_DOTPROD, NEON_I8MM; the
 * function is skeep_<body>, compiled by a unit isa_<isa>_*.c. */
struct skeep_kernel {
  skeep_kernel_info info;
  void (*body)(void); /* NULL where the instruction set is not of this architecture */
};
/* Row `row` of generated/kernels_table.h, in its order; NULL past the end. info.runnable says whether body may be
 * called. */
const struct skeep_kernel *skeep_kernel_row(size_t row);
/* The best runnable row for exactly (op, encoding, activation, order), rows with SKEEP_ANY matching all;
 * NULL when there is none. Fast, from a table that is built at the first use. */
const struct skeep_kernel *skeep_kernel_find(uint32_t op, uint32_t encoding, uint32_t activation, skeep_order order);
/* The row of a product: skeep_kernel_find's, or for one token with A8 that of the instruction set which skeep_machine()
 * names, whose bits are the same. */
const struct skeep_kernel *skeep_kernel_product(uint32_t encoding, uint32_t activation, skeep_order order, int one);
/* Whether x has one row only. */
int skeep_one_token(const skeep_view *x);
/* The portable row of op for exactly this encoding: the executable specification. NULL when there is none. */
const struct skeep_kernel *skeep_kernel_portable(uint32_t op, uint32_t encoding);
/* skeep_select over checked views: the row that op runs on these operands, or why there is none. */
skeep_status skeep_select_row(uint32_t op, const skeep_view *const *operands, uint32_t count,
                              const struct skeep_kernel **row);
/* The facts of an encoding, NULL when the id is unknown. */
const skeep_encoding_info *skeep_encoding_find(uint32_t id);

/* The feed order: SKEEP_ORDER_FEED of skeep.h. The blocks that the rows of a panel have at one place along the block
 * axis are a column. Byte j of the block of row r is in the run that holds j, which begins `at` bytes into a block and is
 * cut into units: the byte is at panel*at + (j-at)/unit*unit*panel + r*unit + (j-at)%unit of the column. */
#define SKEEP_FEED_PANEL 16
#define SKEEP_FEED_RUNS 2
struct skeep_run {
  uint16_t at, bytes, unit; /* unit 1, 2 or 4 */
};
/* The runs of an encoding, the last of them perhaps without bytes; NULL when it has no feed order. */
const struct skeep_run *skeep_feed_runs(uint32_t encoding);
/* Whether this is the feed order. */
int skeep_order_is_feed(skeep_order order);
/* Copies the block of row r out of a column, and into it. */
void skeep_feed_read(const struct skeep_run *runs, const char *column, size_t r, char *block);
void skeep_feed_write(const struct skeep_run *runs, char *column, size_t r, const char *block);
/* The same for the blocks of all rows of a column, faster; block[r] is that of row r. */
void skeep_feed_read_all(const struct skeep_run *runs, const char *column, char *const block[SKEEP_FEED_PANEL]);
void skeep_feed_write_all(const struct skeep_run *runs, char *column, char *const block[SKEEP_FEED_PANEL]);

/* What the processor and operating system support and SKEEP_ISA allows: a bit for each isa in
 * generated/kernels_table.h. */
enum skeep_feature {
  SKEEP_FEATURE_PORTABLE = 1u << 0,
  SKEEP_FEATURE_AVX2 = 1u << 1,
  SKEEP_FEATURE_AVX512 = 1u << 2,
  SKEEP_FEATURE_NEON = 1u << 3,
  SKEEP_FEATURE_NEON_DOTPROD = 1u << 4,
  SKEEP_FEATURE_NEON_I8MM = 1u << 5
};
uint32_t skeep_features(void);

#endif
