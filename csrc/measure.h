/* What this machine can do at most, measured: how fast a pool's threads read memory, and how fast they multiply 8-bit
 * integers. Benchmarks say which share of it an operation reaches. Not part of the public interface; does not need
 * internal.h. */
#ifndef SKEEP_MEASURE_H
#define SKEEP_MEASURE_H

#include "skeep.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The size of the largest cache of this machine's first processor in bytes, whoever shares it; 0 = unknown. */
uint64_t skeep_cache_bytes(void);
/* How many bytes a buffer needs so that reading it again and again reads memory: four times the largest cache and at
 * least 64 MiB, but at most half of `available`. */
uint64_t skeep_measure_bytes(uint64_t available);

/* The memory that a pool of so many threads takes for tasks, with so many bytes of scratch each; 0 scratch: the usual. */
uint64_t skeep_pool_bytes(uint32_t threads, uint64_t scratch);

/* Makes the pages of an allocated storage exist, which reading alone would not do. */
skeep_status skeep_measure_touch(skeep_pool *pool, skeep_storage buffer);
/* Reads the whole storage, in order, and sets *seconds. Each thread has one sequential stream: a stretch of some MiB and,
 * when it is done with that, the next stretch that is left. Reads it once without and once with software prefetch; the
 * faster one counts. */
skeep_status skeep_measure_read(skeep_pool *pool, skeep_storage buffer, double *seconds);
/* Multiplies and adds 8-bit integers in registers for some milliseconds with the instruction set in use, and sets
 * *seconds and how many operations that were, multiplications and additions. On AVX-512 these are vpdpbusd; on AVX2
 * vpmaddubsw, four of which are added in 16 bits before they are widened, as products of codes of 4 or 5 bits do. 0 with
 * the other instruction sets. */
skeep_status skeep_measure_multiply(skeep_pool *pool, double *operations, double *seconds);
/* How many of `bytes` bytes from address on are in huge pages now; 0 when that is not known. */
uint64_t skeep_measure_huge(uint64_t address, uint64_t bytes);

/* Some rounds of multiplications, and how many operations a round has. */
void skeep_multiply_avx2(uint64_t rounds);
void skeep_multiply_avx512(uint64_t rounds);
#define SKEEP_MULTIPLY_AVX2_OPERATIONS (16 * 64)
#define SKEEP_MULTIPLY_AVX512_OPERATIONS (12 * 128)

#ifdef __cplusplus
}
#endif
#endif
