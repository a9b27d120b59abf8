/* The slab of slots: reserved once, grown in place, with a list of the free ones. */
#include "memory_slab.h"

#include <pthread.h>
#include <sys/mman.h>

#define SLAB_RESERVE (512ull << 20) /* address space for a million slots */
#define SLAB_CHUNK (64ull << 10)    /* what the slab grows by */

uint64_t skeep_slab_base, skeep_slab_bytes;
skeep_counters skeep_slab_counters;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct skeep_slot *free_slots;
static uint64_t slab_usable; /* bytes of the reservation that are accessible */

void skeep_slab_lock(void) { pthread_mutex_lock(&lock); }
void skeep_slab_unlock(void) { pthread_mutex_unlock(&lock); }
/* If another thread held the lock during a fork, it would stay locked in the child forever. */
__attribute__((constructor)) static void keep_forks_out(void) {
  (void)pthread_atfork(skeep_slab_lock, skeep_slab_unlock, skeep_slab_unlock);
}

struct skeep_slot *skeep_slot_take(void) {
  struct skeep_slot *s = free_slots;
  if (s) {
    free_slots = s->below;
    s->name[0] = 0;
    return s;
  }
  if (!skeep_slab_base) {
    void *p = mmap(NULL, SLAB_RESERVE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    __atomic_store_n(&skeep_slab_base, (uint64_t)(uintptr_t)p, __ATOMIC_RELAXED);
  }
  if (skeep_slab_bytes == slab_usable) {
    if (slab_usable == SLAB_RESERVE) return NULL;
    if (mprotect((char *)(uintptr_t)skeep_slab_base + slab_usable, SLAB_CHUNK, PROT_READ | PROT_WRITE)) return NULL;
    slab_usable += SLAB_CHUNK;
  }
  s = (struct skeep_slot *)(uintptr_t)(skeep_slab_base + skeep_slab_bytes);
  __atomic_store_n(&skeep_slab_bytes, skeep_slab_bytes + SKEEP_SLOT_BYTES, __ATOMIC_RELEASE);
  skeep_slab_counters.slots++;
  return s;
}

void skeep_slot_give(struct skeep_slot *s) {
  s->kind = SKEEP_FREE;
  s->below = free_slots;
  free_slots = s;
}

skeep_storage skeep_slot_open(struct skeep_slot *s) {
  const uint64_t g = s->generation + 1;
  __atomic_store_n(&s->generation, g, __ATOMIC_RELEASE);
  return (skeep_storage){(uint64_t)(uintptr_t)s, g};
}
void skeep_slot_close(struct skeep_slot *s) {
  __atomic_store_n(&s->generation, s->generation + 1, __ATOMIC_SEQ_CST);
}
skeep_storage skeep_slot_turn(struct skeep_slot *s) {
  const uint64_t g = s->generation + 2;
  __atomic_store_n(&s->generation, g, __ATOMIC_RELEASE);
  return (skeep_storage){(uint64_t)(uintptr_t)s, g};
}

skeep_status skeep_closed(const struct skeep_slot *s, uint64_t generation) {
  const uint64_t id = __atomic_load_n(&s->id, __ATOMIC_ACQUIRE);
  const uint64_t now = __atomic_load_n(&s->generation, __ATOMIC_ACQUIRE);
  return skeep_fail(SKEEP_ERR_CLOSED, -1, now == generation + 1 ? id : 0);
}

struct skeep_slot *skeep_open_root(skeep_storage h, skeep_status *st) {
  struct skeep_slot *s = skeep_slot_at(h.cell);
  *st = skeep_bad_parameter(0);
  if (!s) return NULL;
  if (!skeep_slot_live(s, h.generation)) {
    *st = skeep_closed(s, h.generation);
    return NULL;
  }
  return s->root == s ? s : NULL; /* a mark is no root: ERR_ARGUMENT */
}

void skeep_counters_read(skeep_counters *out) {
  if (!out) return;
  skeep_slab_lock();
  *out = skeep_slab_counters;
  skeep_slab_unlock();
}
