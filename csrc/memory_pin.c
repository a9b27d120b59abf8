/* Pins keep a slot and its root unchanged. Giving back the last pin of a closed slot ends its use. */
#include "memory_slab.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void futex_wait(void *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake_all(void *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }
/* A futex has 32 bits: the count, in the low half of pins, which comes first on little-endian platforms. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of pins comes first");

int skeep_slot_wait(struct skeep_slot *s, uint64_t generation) {
  if (__atomic_load_n(&s->pins, __ATOMIC_SEQ_CST) & SKEEP_PIN_COUNT) {
    __atomic_add_fetch(&s->waiting, 1, __ATOMIC_SEQ_CST);
    for (;;) {
      const uint64_t pins = __atomic_load_n(&s->pins, __ATOMIC_SEQ_CST);
      if (!(pins & SKEEP_PIN_COUNT) || __atomic_load_n(&s->generation, __ATOMIC_SEQ_CST) != generation) break;
      futex_wait(&s->pins, (uint32_t)pins);
    }
    __atomic_sub_fetch(&s->waiting, 1, __ATOMIC_SEQ_CST);
  }
  return __atomic_load_n(&s->generation, __ATOMIC_SEQ_CST) == generation;
}

/* Frees what a root owns. */
static void root_free(struct skeep_slot *root) {
  switch (root->kind) {
  case SKEEP_MALLOCED: free((void *)(uintptr_t)root->base); break;
  case SKEEP_FILE: close(root->fd); /* fall through */
  case SKEEP_MMAPPED: munmap((void *)(uintptr_t)root->base, root->length); break;
  default:
    if (root->release) root->release(root->release_arg);
  }
}

/* Ends the use of a retired slot without pins. Exactly one of the threads that find it so does it. */
static void finish(struct skeep_slot *s) {
  uint64_t idle = SKEEP_CLOSING | SKEEP_RETIRED;
  if (!__atomic_compare_exchange_n(&s->pins, &idle, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
  const int is_root = s->root == s;
  if (is_root) root_free(s);
  skeep_slab_lock();
  if (is_root) {
    skeep_slab_counters.storages--;
    *skeep_bytes_counter(s->domain) -= s->bytes;
  }
  skeep_slot_give(s);
  skeep_slab_unlock();
}

void skeep_slot_retire(struct skeep_slot *s) {
  if (!(__atomic_fetch_or(&s->pins, SKEEP_CLOSING | SKEEP_RETIRED, __ATOMIC_SEQ_CST) & SKEEP_PIN_COUNT)) finish(s);
}

void skeep_slot_drop(struct skeep_slot *s) {
  if (__atomic_sub_fetch(&s->pins, 1, __ATOMIC_SEQ_CST) == (SKEEP_CLOSING | SKEEP_RETIRED)) finish(s);
  if (__atomic_load_n(&s->waiting, __ATOMIC_SEQ_CST)) futex_wake_all(&s->pins);
}

void skeep_slot_unpin(struct skeep_slot *s) {
  struct skeep_slot *root = s->root;
  skeep_slot_drop(s);
  if (root != s) skeep_slot_drop(root);
}

skeep_status skeep_cell_pin(uint64_t cell, uint64_t generation, struct skeep_slot **out) {
  struct skeep_slot *s = skeep_slot_at(cell);
  if (!s) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, offsetof(skeep_view, cell));
  struct skeep_slot *root = __atomic_load_n(&s->root, __ATOMIC_ACQUIRE);
  if (!skeep_slot_live(s, generation)) return skeep_closed(s, generation);
  uint64_t pins = __atomic_add_fetch(&s->pins, 1, __ATOMIC_SEQ_CST);
  if (root != s) pins = __atomic_add_fetch(&root->pins, 1, __ATOMIC_SEQ_CST);
  const uint64_t now = __atomic_load_n(&s->generation, __ATOMIC_SEQ_CST);
  if ((pins & SKEEP_CLOSING) || now != generation) {
    /* Not skeep_slot_unpin: s may serve another root by now. */
    skeep_slot_drop(s);
    if (root != s) skeep_slot_drop(root);
    return skeep_closed(s, generation);
  }
  *out = s;
  return skeep_ok();
}

skeep_status skeep_pin(skeep_storage h, skeep_storage *pin) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *pinned;
  if (!pin) return skeep_bad_parameter(1);
  const skeep_status st = skeep_cell_pin(h.cell, h.generation, &pinned);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? skeep_bad_parameter(0) : st;
  skeep_slab_lock();
  struct skeep_slot *p = skeep_slot_take();
  if (p) {
    p->kind = SKEEP_PIN;
    p->pinned = pinned;
    __atomic_store_n(&p->id, pinned->id, __ATOMIC_RELEASE);
    *pin = skeep_slot_turn(p);
  }
  skeep_slab_unlock();
  if (p) return st;
  skeep_slot_unpin(pinned);
  return skeep_fail(SKEEP_ERR_MEMORY, -1, SKEEP_SLOT_BYTES);
}

skeep_status skeep_unpin(skeep_storage pin) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *p = skeep_slot_at(pin.cell), *pinned = NULL;
  if (!p || (pin.generation & 1)) return skeep_bad_parameter(0);
  skeep_status st = skeep_ok();
  skeep_slab_lock();
  if (p->kind == SKEEP_PIN && p->generation == pin.generation) {
    pinned = p->pinned;
    (void)skeep_slot_turn(p);
    skeep_slot_give(p);
  } else {
    st = skeep_fail(SKEEP_ERR_CLOSED, -1, p->generation == pin.generation + 2 ? p->id : 0);
  }
  skeep_slab_unlock();
  if (pinned) skeep_slot_unpin(pinned);
  return st;
}
