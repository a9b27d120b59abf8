/* Slots: what a skeep_storage handle and a view's cell point to. Only memory_*.c, status.c, op_reference.c and op.c
 * access their fields.
 *
 * Invariants
 *  - All slots are in one slab, which is reserved once, grows in place and is never unmapped. So the slot of a stale
 *    handle can always be read. skeep_slot_at tells with one subtraction whether an address is that of a slot.
 *  - generation only grows. It is odd while the slot is open and even while it is closed. A handle or view is live
 *    while the slot has its (odd) generation.
 *  - A slot is used for a root, for a mark, or for a pin of skeep_pin. A pin's slot stays closed, so that its handle is
 *    accepted by skeep_unpin only. Its even generation grows by two with each use, so that a pin ends only once.
 *  - root is stored (release) only while generation is even. A thread that loads root (acquire) and then still finds
 *    the old generation has the old root: with a later root it would also see the later generation.
 *  - pins has the count in its low half, and the flags SKEEP_CLOSING and SKEEP_RETIRED above it. A pin through a mark
 *    counts on the mark and on the root. A pin first adds to the count and then checks CLOSING and the generation. A
 *    close first raises generations and then retires the slot; a release raises them and then reads the count. In each
 *    case at least one of the two threads sees the other.
 *  - A retired slot whose count is 0 ends its use: the first thread that clears its flags frees what the root owns and
 *    puts the slot on the free list. A late pin may still add to a slot that has another use already. It then finds
 *    another generation and subtracts itself again, so that a count is wrong for a moment and nothing else happens.
 *  - A closed mark belongs to the thread that closed it until that thread retires it, so that it can wait for the
 *    mark's pins. */
#ifndef SKEEP_SLOT_H
#define SKEEP_SLOT_H

#include "internal.h"

#define SKEEP_SLOT_BYTES 512u
#define SKEEP_NAME_BYTES 256u /* of a storage's name, with its terminator */
#define SKEEP_CLOSING (1ull << 32) /* no new pins: a close has begun */
#define SKEEP_RETIRED (1ull << 33) /* the last unpin ends its life */
#define SKEEP_PIN_COUNT 0xffffffffull

/* What a slot is used for. From SKEEP_BORROWED on it is a root, and the kind says how its bytes are freed. */
enum skeep_kind { SKEEP_FREE, SKEEP_MARK, SKEEP_PIN, SKEEP_BORROWED, SKEEP_MALLOCED, SKEEP_MMAPPED, SKEEP_FILE };

struct skeep_slot {
  /* Read by every operation. */
  uint64_t generation;
  struct skeep_slot *root; /* itself, unless the slot is a mark */
  uint64_t id, address, bytes;
  uint32_t domain, readonly;
  /* Written by every pin, so on a cache line of its own. */
  uint64_t pins __attribute__((aligned(64)));
  uint32_t waiting; /* threads that sleep until pins decrease */
  /* Rarely used. */
  struct skeep_slot *marks __attribute__((aligned(64))); /* open marks of a root, newest first */
  struct skeep_slot *below;                              /* next in marks, closed marks or the free list */
  struct skeep_slot *pinned;                             /* the slot that a pin holds */
  uint64_t base, length;                                 /* of the allocation or mapping, to free it */
  void (*release)(void *);                               /* of a borrowed root, or NULL */
  void *release_arg;
  int64_t file_size, mtime_s, mtime_ns;
  enum skeep_kind kind;
  int fd;
  char name[SKEEP_NAME_BYTES]; /* of a root, for messages; kept until the slot is used again */
} __attribute__((aligned(SKEEP_SLOT_BYTES)));
_Static_assert(sizeof(struct skeep_slot) == SKEEP_SLOT_BYTES, "a slot's address is a multiple of its size");

/* Address and size of the slab. When it grows, bytes is written after base. */
extern uint64_t skeep_slab_base, skeep_slab_bytes;

/* The slot at an address, or NULL when there is none: the first check of a view, which may be forged or damaged. */
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

/* The first part of skeep_op_begin, and all of it for a call without a pool (NULL). Does not count as an operation of
 * step and does not record errors in it. */
skeep_status skeep_op_hold(struct skeep_op *op, skeep_pool *pool, skeep_step *step, const skeep_view *const *operands,
                           uint32_t count, uint32_t outputs, uint32_t in_place);

/* A number, from 1, that is different for each run (begin to end) of any step. */
uint64_t skeep_step_serial(const skeep_step *step);
/* Whether a step pins a slot. */
int skeep_step_holds(const skeep_step *step, const struct skeep_slot *slot);
/* Give back the pin of a step on one slot, or its pins on all marks. The step pins again what it needs later. */
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
