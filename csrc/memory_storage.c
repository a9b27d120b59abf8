/* Storages: making roots, borrowing bytes of the host, and facts of a storage. */
#include "memory_slab.h"

static uint64_t last_id; /* lock held */

skeep_status skeep_root_make(const struct skeep_root *r, skeep_storage *out) {
  skeep_slab_lock();
  struct skeep_slot *s = skeep_slot_take();
  if (!s) {
    skeep_slab_unlock();
    return skeep_fail(SKEEP_ERR_MEMORY, -1, SKEEP_SLOT_BYTES);
  }
  __atomic_store_n(&s->root, s, __ATOMIC_RELEASE);
  __atomic_store_n(&s->id, ++last_id, __ATOMIC_RELEASE);
  s->address = r->address;
  s->bytes = r->bytes;
  s->base = r->base;
  s->length = r->length;
  s->domain = r->domain;
  s->readonly = r->readonly;
  s->kind = r->kind;
  s->fd = r->fd;
  s->file_size = r->file.st_size;
  s->mtime_s = r->file.st_mtim.tv_sec;
  s->mtime_ns = r->file.st_mtim.tv_nsec;
  s->release = r->release;
  s->release_arg = r->release_arg;
  s->marks = NULL;
  skeep_slab_counters.storages++;
  *skeep_bytes_counter(r->domain) += r->bytes;
  *out = skeep_slot_open(s);
  skeep_slab_unlock();
  return skeep_ok();
}

skeep_status skeep_storage_borrow(void *address, uint64_t bytes, uint32_t domain, uint32_t readonly,
                                  void (*release)(void *arg), void *arg, skeep_storage *out) {
  SKEEP_KEEP_ERRNO;
  const uint64_t a = (uint64_t)(uintptr_t)address;
  if (!address) return skeep_bad_parameter(0);
  if (!bytes) return skeep_bad_parameter(1);
  if (domain == SKEEP_DOMAIN_DEVICE) return skeep_fail(SKEEP_ERR_NO_KERNEL, -1, 0);
  if (domain != SKEEP_DOMAIN_HEAP && domain != SKEEP_DOMAIN_OFFHEAP) return skeep_bad_parameter(2);
  if (!out) return skeep_bad_parameter(6);
  if (a + bytes < a) return skeep_fail(SKEEP_ERR_BOUNDS, -1, bytes);
  const struct skeep_root r = {.address = a,
                         .bytes = bytes,
                         .domain = domain,
                         .readonly = readonly != 0,
                         .kind = SKEEP_BORROWED,
                         .fd = -1,
                         .release = release,
                         .release_arg = arg};
  return skeep_root_make(&r, out);
}

skeep_status skeep_storage_info_of(skeep_storage h, skeep_storage_info *info) {
  SKEEP_KEEP_ERRNO;
  if (!info) return skeep_bad_parameter(1);
  struct skeep_slot *s;
  const skeep_status st = skeep_cell_pin(h.cell, h.generation, &s);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? skeep_bad_parameter(0) : st;
  const struct skeep_slot *root = s->root;
  const uint64_t pins = __atomic_load_n(&s->pins, __ATOMIC_RELAXED) & SKEEP_PIN_COUNT;
  *info = (skeep_storage_info){.address = root->address,
                               .bytes = root->bytes,
                               .id = root->id,
                               .pins = pins - 1, /* without the one of this call */
                               .domain = root->domain,
                               .readonly = root->readonly,
                               .is_mark = root != s};
  skeep_slot_unpin(s);
  return st;
}
