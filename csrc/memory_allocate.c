/* Storages of bytes off the managed heap. */
#include "memory_slab.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE (2ull << 20)

skeep_status skeep_storage_allocate(uint64_t bytes, uint64_t alignment, skeep_storage *out) {
  SKEEP_KEEP_ERRNO;
  if (!alignment) alignment = 64;
  if (!bytes) return skeep_bad_parameter(0);
  if (alignment & (alignment - 1) || alignment > HUGE_PAGE) return skeep_bad_parameter(1);
  if (!out) return skeep_bad_parameter(2);
  if (bytes > (uint64_t)PTRDIFF_MAX - 2 * HUGE_PAGE) return skeep_fail(SKEEP_ERR_MEMORY, -1, bytes);
  if (alignment < 64) alignment = 64;
  struct skeep_root r = {.bytes = bytes, .domain = SKEEP_DOMAIN_OFFHEAP, .fd = -1};
  if (bytes < HUGE_PAGE) {
    r.length = (bytes + alignment - 1) & ~(alignment - 1);
    void *p = aligned_alloc(alignment, r.length);
    if (!p) return skeep_fail(SKEEP_ERR_MEMORY, -1, bytes);
    memset(p, 0, r.length);
    r.base = r.address = (uint64_t)(uintptr_t)p;
    r.kind = SKEEP_MALLOCED;
  } else {
    r.length = ((bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)) + HUGE_PAGE; /* room to start at a huge page */
    void *p = mmap(NULL, r.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return skeep_fail(SKEEP_ERR_MEMORY, -1, bytes);
    r.base = (uint64_t)(uintptr_t)p;
    r.address = (r.base + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    r.kind = SKEEP_MMAPPED;
    (void)madvise((void *)(uintptr_t)r.address, bytes, MADV_HUGEPAGE); /* advice: small pages serve as well */
  }
  const skeep_status st = skeep_root_make(&r, out);
  if (st.code != SKEEP_OK) {
    if (r.kind == SKEEP_MALLOCED)
      free((void *)(uintptr_t)r.base);
    else
      munmap((void *)(uintptr_t)r.base, r.length);
  }
  return st;
}
