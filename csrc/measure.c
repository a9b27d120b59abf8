/* Measuring what the machine can do at most: see measure.h. */
#include "internal.h"
#include "measure.h"

#include <stdio.h>
#include <time.h>

#define PAGE 4096u
#define STRETCH (4ull << 20)

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- memory ---- */

uint64_t skeep_cache_bytes(void) {
  SKEEP_KEEP_ERRNO;
  uint64_t largest = 0;
  for (int i = 0; i < 8; i++) {
    char path[80];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    FILE *f = fopen(path, "re");
    if (!f) break;
    unsigned long long size = 0;
    char unit = 0;
    if (fscanf(f, "%llu%c", &size, &unit) == 2) size <<= unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (size > largest) largest = size;
    fclose(f);
  }
  return largest;
}

uint64_t skeep_measure_bytes(uint64_t available) {
  const uint64_t least = 64ull << 20, cache = skeep_cache_bytes();
  const uint64_t bytes = cache > least / 4 ? 4 * cache : least;
  return bytes < available / 2 ? bytes : available / 2;
}

struct buffer {
  char *data;
  uint64_t bytes;
};

static uint64_t stretch(const struct buffer *b, uint32_t index, char **first) {
  const uint64_t at = index * STRETCH;
  *first = b->data + at;
  return b->bytes - at < STRETCH ? b->bytes - at : STRETCH;
}

static void touch(void *arg, uint32_t index, void *scratch) {
  char *p;
  const uint64_t bytes = stretch(arg, index, &p);
  (void)scratch;
  for (uint64_t i = 0; i < bytes; i += PAGE) p[i] = 1;
}

static inline void read_stretch(void *arg, uint32_t index, void *scratch, const uint64_t ahead) {
  typedef uint64_t vec __attribute__((vector_size(16), aligned(1), may_alias));
  char *p;
  const uint64_t lines = stretch(arg, index, &p) / 64;
  vec sum[4] = {{0}};
  for (uint64_t i = 0; i < lines; i++) {
    if (ahead) __builtin_prefetch(p + 64 * i + ahead);
    for (int k = 0; k < 4; k++) sum[k] ^= ((const vec *)(p + 64 * i))[k];
  }
  for (int k = 1; k < 4; k++) sum[0] ^= sum[k];
  *(volatile uint64_t *)scratch = sum[0][0] ^ sum[0][1]; /* else the compiler would see that nothing needs it */
}

/* Some processors read faster when software asks for lines ahead, some slower. */
static void read_plain(void *arg, uint32_t index, void *scratch) { read_stretch(arg, index, scratch, 0); }
static void read_ahead(void *arg, uint32_t index, void *scratch) { read_stretch(arg, index, scratch, 4096); }

static skeep_status over_buffer(skeep_pool *pool, skeep_storage storage, skeep_task *task, double *seconds) {
  if (!pool) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  skeep_storage pin;
  skeep_storage_info info;
  skeep_status st = skeep_pin(storage, &pin);
  if (st.code) return st;
  st = skeep_storage_info_of(storage, &info);
  if (!st.code) {
    struct buffer b = {(char *)(uintptr_t)info.address, info.bytes};
    skeep_pool_enter(pool);
    const double start = now();
    st = skeep_pool_run(pool, task, &b, (uint32_t)((b.bytes - 1) / STRETCH + 1));
    *seconds = now() - start;
    skeep_pool_leave(pool);
  }
  (void)skeep_unpin(pin);
  return st;
}

skeep_status skeep_measure_touch(skeep_pool *pool, skeep_storage buffer) {
  double seconds;
  return over_buffer(pool, buffer, touch, &seconds);
}
skeep_status skeep_measure_read(skeep_pool *pool, skeep_storage buffer, double *seconds) {
  double plain, ahead;
  skeep_status st = over_buffer(pool, buffer, read_plain, &plain);
  if (st.code == SKEEP_OK) st = over_buffer(pool, buffer, read_ahead, &ahead);
  if (st.code == SKEEP_OK) *seconds = plain < ahead ? plain : ahead;
  return st;
}

/* Of each mapping that the range lies in, the share of huge pages counts for its part of the range. */
uint64_t skeep_measure_huge(uint64_t address, uint64_t bytes) {
  SKEEP_KEEP_ERRNO;
  FILE *f = fopen("/proc/self/smaps", "re");
  if (!f) return 0;
  char line[512];
  unsigned long long a, b, from = 0, to = 0, kib;
  double huge = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%llx-%llx ", &a, &b) == 2) from = a, to = b; /* "Anon..." begins with a digit, too */
    const uint64_t first = from > address ? from : address, last = to < address + bytes ? to : address + bytes;
    if (first >= last) continue;
    if (sscanf(line, "AnonHugePages: %llu", &kib) == 1 || sscanf(line, "FilePmdMapped: %llu", &kib) == 1)
      huge += (double)kib * 1024 * (double)(last - first) / (double)(to - from);
  }
  fclose(f);
  return huge < (double)bytes ? (uint64_t)huge : bytes;
}

/* ---- multiplications ---- */

#define ROUNDS 500000 /* about a millisecond */

struct multiply {
  void (*rounds)(uint64_t rounds);
};

static void multiply(void *arg, uint32_t index, void *scratch) {
  (void)index;
  (void)scratch;
  ((const struct multiply *)arg)->rounds(ROUNDS);
}

skeep_status skeep_measure_multiply(skeep_pool *pool, double *operations, double *seconds) {
  if (!pool) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  struct multiply m = {NULL};
  double round = 0;
  *operations = *seconds = 0;
#if defined(__x86_64__)
  switch (skeep_isa()) {
  case SKEEP_ISA_AVX2: m.rounds = skeep_multiply_avx2, round = SKEEP_MULTIPLY_AVX2_OPERATIONS; break;
  case SKEEP_ISA_AVX512: m.rounds = skeep_multiply_avx512, round = SKEEP_MULTIPLY_AVX512_OPERATIONS; break;
  }
#endif
  if (!m.rounds) return skeep_ok();
  const uint32_t tasks = 8 * skeep_pool_threads(pool);
  skeep_pool_enter(pool);
  const double start = now();
  const skeep_status st = skeep_pool_run(pool, multiply, &m, tasks);
  *seconds = now() - start;
  skeep_pool_leave(pool);
  *operations = round * ROUNDS * tasks;
  return st;
}
