/* The slab of slots, for memory_*.c. Its lock protects the free list, the lists of marks, kinds, the counters, and the
 * opening and closing of slots. While it is held, nothing is allocated and no function of the host is called. */
#ifndef SKEEP_SLAB_H
#define SKEEP_SLAB_H

#include "memory_slot.h"

#include <sys/stat.h>

void skeep_slab_lock(void);
void skeep_slab_unlock(void);

/* Lock held: */
extern skeep_counters skeep_slab_counters;
static inline uint64_t *skeep_bytes_counter(uint32_t domain) {
  if (domain == SKEEP_DOMAIN_MAPPED) return &skeep_slab_counters.mapped_bytes;
  return domain == SKEEP_DOMAIN_OFFHEAP ? &skeep_slab_counters.offheap_bytes : &skeep_slab_counters.heap_bytes;
}
/* A closed slot without a name, or NULL when the slab is full or the system refuses. */
struct skeep_slot *skeep_slot_take(void);
void skeep_slot_give(struct skeep_slot *s);
/* Opens a slot whose fields are set; closes it. Nobody else changes a generation. */
skeep_storage skeep_slot_open(struct skeep_slot *s);
void skeep_slot_close(struct skeep_slot *s);
/* Begins or ends the use of a slot for a pin. The slot stays closed: its generation stays even. */
skeep_storage skeep_slot_turn(struct skeep_slot *s);
/* The open root of a handle, or NULL with *st saying why. */
struct skeep_slot *skeep_open_root(skeep_storage h, skeep_status *st);

/* Lock not held: */
/* Sleeps until s has no pins. Returns 0 when its generation changed meanwhile. */
int skeep_slot_wait(struct skeep_slot *s, uint64_t generation);
/* Retires a closed slot: its last pin ends its use, or this call when it has none. */
void skeep_slot_retire(struct skeep_slot *s);
/* ERR_CLOSED for a handle, with the id of its root unless the slot has been reused. */
skeep_status skeep_closed(const struct skeep_slot *s, uint64_t generation);
/* ERR_ARGUMENT for the parameter at this position. */
static inline skeep_status skeep_bad_parameter(uint64_t position) {
  return skeep_fail(SKEEP_ERR_ARGUMENT, -1, position);
}

/* All facts of a new root. */
struct skeep_root {
  uint64_t address, bytes, base, length;
  uint32_t domain, readonly;
  enum skeep_kind kind;
  int fd;
  struct stat file;
  void (*release)(void *);
  void *release_arg;
};
skeep_status skeep_root_make(const struct skeep_root *r, skeep_storage *out);

#endif
