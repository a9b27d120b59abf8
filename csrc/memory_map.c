/* Storages that map files: mapping, advice, and checking whether the file has changed. */
#include "memory_slab.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

skeep_status skeep_storage_map(int fd, uint64_t offset, uint64_t length, skeep_storage *out) {
  SKEEP_KEEP_ERRNO;
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  struct skeep_root r = {.bytes = length, .domain = SKEEP_DOMAIN_MAPPED, .readonly = 1, .kind = SKEEP_FILE};
  if (!length) return skeep_bad_parameter(2);
  if (!out) return skeep_bad_parameter(3);
  if (fstat(fd, &r.file)) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  if (offset + length < offset) return skeep_fail(SKEEP_ERR_BOUNDS, -1, UINT64_MAX);
  if (offset + length > (uint64_t)r.file.st_size) return skeep_fail(SKEEP_ERR_BOUNDS, -1, offset + length);
  r.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (r.fd < 0) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  const uint64_t head = offset % page;
  r.length = head + length;
  void *p = mmap(NULL, r.length, PROT_READ, MAP_SHARED, fd, (off_t)(offset - head));
  skeep_status st;
  if (p == MAP_FAILED) {
    st = errno == ENOMEM ? skeep_fail(SKEEP_ERR_MEMORY, -1, length) : skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  } else {
    r.base = (uint64_t)(uintptr_t)p;
    r.address = r.base + head;
    st = skeep_root_make(&r, out);
    if (st.code != SKEEP_OK) munmap(p, r.length);
  }
  if (st.code != SKEEP_OK) close(r.fd);
  return st;
}

skeep_status skeep_root_verify(const struct skeep_slot *root) {
  struct stat now;
  if (root->kind != SKEEP_FILE) return skeep_ok();
  if (fstat(root->fd, &now)) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  if (now.st_size == root->file_size && now.st_mtim.tv_sec == root->mtime_s && now.st_mtim.tv_nsec == root->mtime_ns)
    return skeep_ok();
  return skeep_fail(SKEEP_ERR_CHANGED, -1, root->id);
}

/* Calls ask with the root of h, which is pinned meanwhile. */
static skeep_status with_root(skeep_storage h, skeep_status (*ask)(const struct skeep_slot *, void *), void *arg) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *s;
  skeep_status st = skeep_cell_pin(h.cell, h.generation, &s);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? skeep_bad_parameter(0) : st;
  st = ask(s->root, arg);
  skeep_slot_unpin(s);
  return st;
}

static skeep_status ask_verify(const struct skeep_slot *root, void *arg) {
  (void)arg;
  return skeep_root_verify(root);
}

skeep_status skeep_storage_verify(skeep_storage h) { return with_root(h, ask_verify, NULL); }

struct advice {
  uint64_t byte, length;
  int advice;
};

static skeep_status ask_advise(const struct skeep_slot *root, void *arg) {
  const struct advice *a = arg;
  if (root->domain != SKEEP_DOMAIN_MAPPED) return skeep_bad_parameter(0);
  if (a->byte > root->bytes || a->length > root->bytes - a->byte)
    return skeep_fail(SKEEP_ERR_BOUNDS, -1, a->byte + a->length < a->byte ? UINT64_MAX : a->byte + a->length);
  if (!a->length) return skeep_ok();
  const uint64_t from = (root->address + a->byte) & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
  if (madvise((void *)(uintptr_t)from, root->address + a->byte + a->length - from, a->advice))
    return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  return skeep_ok();
}

skeep_status skeep_storage_advise(skeep_storage h, uint64_t byte, uint64_t length, uint32_t advice) {
  static const int advices[] = {[SKEEP_ADVICE_NORMAL] = MADV_NORMAL,
                              [SKEEP_ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
                              [SKEEP_ADVICE_WILLNEED] = MADV_WILLNEED,
                              [SKEEP_ADVICE_DONTNEED] = MADV_DONTNEED};
  if (advice >= sizeof advices / sizeof advices[0]) return skeep_bad_parameter(3);
  struct advice a = {byte, length, advices[advice]};
  return with_root(h, ask_advise, &a);
}

static skeep_status ask_resident(const struct skeep_slot *root, void *arg) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = root->address + root->bytes;
  unsigned char pages[4096];
  uint64_t *sum = arg;
  if (root->domain != SKEEP_DOMAIN_MAPPED) return skeep_bad_parameter(0);
  for (uint64_t at = root->base; at < end; at += sizeof pages * page) {
    const uint64_t left = end - at, bytes = left < sizeof pages * page ? left : sizeof pages * page;
    if (mincore((void *)(uintptr_t)at, bytes, pages)) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
    for (uint64_t i = 0; i * page < bytes; i++) {
      if (!(pages[i] & 1)) continue;
      const uint64_t low = at + i * page, high = low + page;
      *sum += (high < end ? high : end) - (low > root->address ? low : root->address);
    }
  }
  return skeep_ok();
}

skeep_status skeep_storage_resident(skeep_storage h, uint64_t *bytes) {
  if (!bytes) return skeep_bad_parameter(1);
  uint64_t sum = 0;
  const skeep_status st = with_root(h, ask_resident, &sum);
  if (st.code == SKEEP_OK) *bytes = sum;
  return st;
}
