/* What depends on the processor and nothing else: how products of few tokens read weights. It changes neither orders
 * nor bits. Not part of the public interface; does not need internal.h. */
#ifndef SKEEP_MACHINE_H
#define SKEEP_MACHINE_H

#include "skeep.h"

struct skeep_machine {
  const char *name; /* of the family of processors, "unknown" for others */
  uint32_t ahead;   /* bytes by which weights in feed order are prefetched for a few tokens; 0 = not */
  uint32_t panels;  /* of feed order that are read side by side for one token, 1 or 2 */
  uint32_t feed;    /* the instruction set (SKEEP_ISA_*) for one token with A8 and weights in feed order, */
  uint32_t stored;  /* and as stored; only AVX2 where AVX-512 is in use, or what is in use */
};
#define SKEEP_MACHINE_MAX_AHEAD (1u << 20)

/* What is in force: the row of this processor in the table, changed by the environment variable
 * SKEEP_MACHINE=ahead=BYTES,panels=1|2,feed=avx2|avx512,stored=avx2|avx512 (any of the words, in any order), which is read
 * at the first call and ignored as a whole when it has other words. */
const struct skeep_machine *skeep_machine(void);
/* Changes what such words name. 0, and nothing changed, when they are others. */
int skeep_machine_parse(const char *words, struct skeep_machine *machine);
/* Puts another machine in force, for measuring; instruction sets that are not in use become the one that is. Not while
 * an operation runs. */
void skeep_machine_set(const struct skeep_machine *machine);
/* The row of the kernel table that a product of one token runs where one of several tokens runs `row`. */
size_t skeep_machine_row(size_t row);
/* The families of the table: number `index` of them, NULL past the end. Models of one core design share one. */
const char *skeep_machine_family(size_t index);
/* The row of a processor, by vendor, display family and model as CPUID gives them. */
struct skeep_machine skeep_machine_of(const char *vendor, uint32_t family, uint32_t model);

#endif
