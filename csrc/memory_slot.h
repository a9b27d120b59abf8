/* Liveness slots: what a skeep_storage handle and a view's cell point to. Only memory_*.c, status.c, op_reference.c and
 * op.c look inside.
 *
 * Invariants
 *  - Slots lie in one slab that is reserved once, grows in place and is never unmapped, so a stale handle can
 *    always be compared. Whether an address is a slot at all is one subtraction (skeep_slot_at).
 *  - generation is odd while the slot is open and even while it is not; it only grows. A handle or view is live
 *    while the slot holds its (odd) generation.
 *  - A slot serves a root, a mark of one, or a pin that a host took (skeep_pin). That one stays closed, so that its
 *    handle is good for nothing but its end; its even generation grows by two with each use, so that it ends once.
 *  - root is written (release) only while the generation is even. Who loads root (acquire) and then finds the
 *    old generation has the old root: a later one would have made the later generation visible.
 *  - pins: count in the low half, SKEEP_CLOSING and SKEEP_RETIRED above. What is pinned through a mark counts there
 *    and on the root. A pin adds first and then looks for CLOSING and at the generation; a close bumps generations
 *    first and then retires, a release bumps and then looks at the count. One of the two sees the other.
 *  - Who finds count 0 on a retired slot, and is first to take its flags off, ends its life: a root frees what it
 *    owns, and the slot goes to the free list. A late pin may add to a slot that serves somebody else already: it
 *    finds another generation and takes itself off, which disturbs a count for a moment and nothing else.
 *  - A closed mark belongs to whoever closed it until that one retires it, so its bytes can be waited for. */
#ifndef SKEEP_SLOT_H
#define SKEEP_SLOT_H

#include "internal.h"

#define SKEEP_SLOT_BYTES 512u
#define SKEEP_NAME_BYTES 256u /* of a storage's name and its end */
#define SKEEP_CLOSING (1ull << 32) /* no new pins: a close has begun */
#define SKEEP_RETIRED (1ull << 33) /* the last unpin ends its life */
#define SKEEP_PIN_COUNT 0xffffffffull

/* What a slot serves. From SKEEP_BORROWED on it is a root: how its bytes are given back. */
enum skeep_kind { SKEEP_FREE, SKEEP_MARK, SKEEP_PIN, SKEEP_BORROWED, SKEEP_MALLOCED, SKEEP_MMAPPED, SKEEP_FILE };

struct skeep_slot {
  /* Read by every operation. */
  uint64_t generation;
  struct skeep_slot *root; /* itself, unless the slot is a mark */
  uint64_t id, address, bytes;
  uint32_t domain, readonly;
  /* Written by every pin: a line of its own. */
  uint64_t pins __attribute__((aligned(64)));
  uint32_t waiting; /* threads that sleep until pins fall */
  /* Cold. */
  struct skeep_slot *marks __attribute__((aligned(64))); /* open marks of a root, newest first */
  struct skeep_slot *below;                              /* next in marks, closed marks or the free list */
  struct skeep_slot *pinned;                             /* what a pin keeps */
  uint64_t base, length;                                 /* what to give back to the system */
  void (*release)(void *);                               /* of a borrowed root, or NULL */
  void *release_arg;
  int64_t file_size, mtime_s, mtime_ns;
  enum skeep_kind kind;
  int fd;
  char name[SKEEP_NAME_BYTES]; /* of a root, for messages; stays until the slot serves somebody else */
} __attribute__((aligned(SKEEP_SLOT_BYTES)));
_Static_assert(sizeof(struct skeep_slot) == SKEEP_SLOT_BYTES, "a slot's address is a multiple of its size");

/* The slab: written once each growth, bytes after base. */
extern uint64_t skeep_slab_base, skeep_slab_bytes;

/* The slot at an address, or NULL when the address is none: what a forged or damaged view meets first. */
static inline struct skeep_slot *skeep_slot_at(uint64_t cell) {
  const uint64_t bytes = __atomic_load_n(&skeep_slab_bytes, __ATOMIC_ACQUIRE);
  const uint64_t offset = cell - __atomic_load_n(&skeep_slab_base, __ATOMIC_RELAXED);
  return offset < bytes && offset % SKEEP_SLOT_BYTES == 0 ? (struct skeep_slot *)(uintptr_t)cell : NULL;
}

static inline int skeep_slot_live(const struct skeep_slot *s, uint64_t generation) {
  return __atomic_load_n(&s->generation, __ATOMIC_ACQUIRE) == generation && (generation & 1);
}

/* Pins the slot at (cell, generation) and its root: until skeep_slot_unpin the slot, the bytes and the fields of the
 * root stay as they are. ERR_ARGUMENT when cell is no slot, ERR_CLOSED when it is not live. */
skeep_status skeep_cell_pin(uint64_t cell, uint64_t generation, struct skeep_slot **slot);
void skeep_slot_unpin(struct skeep_slot *slot);
/* Gives back one pin on this slot alone. */
void skeep_slot_drop(struct skeep_slot *slot);
/* The id of the open storage whose bytes hold an address now, or 0. */
uint64_t skeep_storage_at(uint64_t address);
/* As skeep_storage_verify, for a pinned root. */
skeep_status skeep_root_verify(const struct skeep_slot *root);
/* Everything that skeep_view_check checks except liveness; root is held. */
skeep_status skeep_view_check_held(const skeep_view *view, const struct skeep_slot *root);

/* The bytes [*from, *to) that a checked view reaches. */
void skeep_view_range(const skeep_view *view, uint64_t *from, uint64_t *to);
/* Whether two indices of a checked view may share an element (a stride of 0, or one that is too small). */
int skeep_view_overlaps_itself(const skeep_view *view);

/* What skeep_op_begin does first, and all that a call without a pool (NULL) needs; step is not entered, and errors are
 * not kept in it. */
skeep_status skeep_op_hold(struct skeep_op *op, skeep_pool *pool, skeep_step *step, const skeep_view *const *operands,
                           uint32_t count, uint32_t outputs, uint32_t in_place);

/* Tells the runs of all steps apart, from 1. */
uint64_t skeep_step_serial(const skeep_step *step);
/* Whether a step pins a slot. */
int skeep_step_holds(const skeep_step *step, const struct skeep_slot *slot);
/* Gives back the pin of a step on a slot, and its pins on all marks. What it needs again, it pins again. */
void skeep_step_forget(skeep_step *step, struct skeep_slot *slot);
void skeep_step_forget_marks(skeep_step *step);
/* Makes sure that a step pins the live slot (cell, generation) and its root, for this operand: ERR_ARGUMENT,
 * ERR_CLOSED, or ERR_MEMORY when the step pins as many as it was made for (detail: how many). */
skeep_status skeep_step_pin(skeep_step *step, uint64_t cell, uint64_t generation, uint32_t operand,
                            struct skeep_slot **root);
/* Begins one operation of a step: its first error, or ERR_ARGUMENT outside of begin and end. */
skeep_status skeep_step_enter(skeep_step *step);
/* Keeps the first error of a step; returns status. */
skeep_status skeep_step_keep(skeep_step *step, skeep_status status);

#endif
