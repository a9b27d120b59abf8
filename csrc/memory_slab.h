/* What memory_*.c share of the slab of slots. The lock guards the free list, the lists of marks, kinds, the counters, and
 * every opening and closing of a slot. Nothing that allocates or calls a host runs under it. */
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
/* Begins or ends a pin's use of a slot, which stays closed to everybody else. */
skeep_storage skeep_slot_turn(struct skeep_slot *s);
/* The open root of a handle, or NULL with *st saying why. */
struct skeep_slot *skeep_open_root(skeep_storage h, skeep_status *st);

/* Lock not held: */
/* Sleeps until s has no pins; 0 when it goes on to another generation meanwhile. */
int skeep_slot_wait(struct skeep_slot *s, uint64_t generation);
/* Leaves a closed slot to its pins: the last one ends its life, or this call when there is none. */
void skeep_slot_retire(struct skeep_slot *s);
/* ERR_CLOSED for a handle; the id is known while the slot has not been reused. */
skeep_status skeep_closed(const struct skeep_slot *s, uint64_t generation);
/* Field numbers of ERR_ARGUMENT: the position of the parameter. */
static inline skeep_status skeep_bad_parameter(uint64_t position) {
  return skeep_fail(SKEEP_ERR_ARGUMENT, -1, position);
}

/* Everything of a root but its slot. */
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
