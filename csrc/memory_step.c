/* Steps: pins, first error and frame of a group of operations. */
#include "memory_slot.h"

#include <stdlib.h>

#define DEFAULT_ROOTS 64u
#define MAX_ROOTS 32768u
#define MAX_FRAME 65536u

/* The operation and operand that first used a root, for the error when its file has changed. */
struct use {
  uint64_t op;
  int32_t operand;
};

struct skeep_step {
  skeep_status first;
  uint64_t failed_op; /* ordinal of the operation that caused it */
  uint64_t ops;       /* begun */
  uint64_t serial;
  int running;
  skeep_view *frame;
  const struct skeep_slot *last; /* the slot found last: often the next one, too */
  uint32_t roots, marks, capacity;
  uint32_t mask;            /* buckets - 1 */
  struct skeep_slot **slot; /* what the step pins, once each: roots from the front on, marks from the end backwards */
  struct use *use;          /* of each */
  uint16_t *bucket;         /* hash table by slot address, open addressing: 1 + index in slot, 0 = empty; at most half full */
};

skeep_status skeep_step_create(uint32_t frame_views, uint32_t roots, skeep_step **out) {
  SKEEP_KEEP_ERRNO;
  if (!roots) roots = DEFAULT_ROOTS;
  if (frame_views > MAX_FRAME) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  if (roots > MAX_ROOTS) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 1);
  if (!out) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 2);
  uint32_t buckets = 2;
  while (buckets < 2 * roots) buckets *= 2;
  const size_t frame = sizeof(skeep_view) * frame_views, list = sizeof(struct skeep_slot *) * roots;
  const size_t uses = sizeof(struct use) * roots;
  const size_t head = (sizeof(skeep_step) + 15) & ~(size_t)15, total = head + frame + list + uses + buckets * sizeof(uint16_t);
  skeep_step *s = calloc(1, total);
  if (!s) return skeep_fail(SKEEP_ERR_MEMORY, -1, total);
  char *at = (char *)s + head;
  s->first = skeep_ok();
  s->frame = frame_views ? (skeep_view *)(void *)at : NULL;
  s->slot = (struct skeep_slot **)(void *)(at + frame);
  s->use = (struct use *)(void *)(at + frame + list);
  s->bucket = (uint16_t *)(void *)(at + frame + list + uses);
  s->capacity = roots;
  s->mask = buckets - 1;
  *out = s;
  return skeep_ok();
}

skeep_view *skeep_step_frame(skeep_step *step) { return step ? step->frame : NULL; }

skeep_status skeep_step_status(const skeep_step *step, uint64_t *op) {
  if (!step) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  if (op && step->first.code != SKEEP_OK) *op = step->failed_op;
  return step->first;
}

/* The bucket where the search for a slot begins. */
static uint32_t home_of(const skeep_step *s, const struct skeep_slot *slot) {
  const uint32_t i = (uint32_t)((uintptr_t)slot / SKEEP_SLOT_BYTES) * 2654435761u;
  return (i ^ i >> 15) & s->mask;
}

/* The bucket of a slot, or the empty one where it would go. */
static uint32_t bucket_of(const skeep_step *s, const struct skeep_slot *slot) {
  uint32_t i = home_of(s, slot);
  while (s->bucket[i] && s->slot[s->bucket[i] - 1] != slot) i = (i + 1) & s->mask;
  return i;
}

int skeep_step_holds(const skeep_step *s, const struct skeep_slot *slot) {
  return s->last == slot || s->bucket[bucket_of(s, slot)] != 0;
}

static void keep(skeep_step *s, struct skeep_slot *slot, uint32_t operand) {
  const uint32_t at = bucket_of(s, slot), entry = slot->root == slot ? s->roots++ : s->capacity - ++s->marks;
  s->slot[entry] = slot;
  s->use[entry] = (struct use){s->ops ? s->ops - 1 : 0, (int32_t)operand};
  s->bucket[at] = (uint16_t)(entry + 1);
}

void skeep_step_forget(skeep_step *s, struct skeep_slot *slot) {
  uint32_t hole = bucket_of(s, slot);
  if (!s->bucket[hole]) return;
  /* The last root or mark moves to the freed entry. */
  const uint32_t entry = s->bucket[hole] - 1u, last = slot->root == slot ? --s->roots : s->capacity - s->marks--;
  s->bucket[bucket_of(s, s->slot[last])] = (uint16_t)(entry + 1);
  s->slot[entry] = s->slot[last];
  s->use[entry] = s->use[last];
  /* Entries after the hole move into it, unless their search begins after it. */
  for (uint32_t i = (hole + 1) & s->mask; s->bucket[i]; i = (i + 1) & s->mask) {
    const uint32_t home = home_of(s, s->slot[s->bucket[i] - 1]);
    if (((i - home) & s->mask) < ((i - hole) & s->mask)) continue;
    s->bucket[hole] = s->bucket[i];
    hole = i;
  }
  s->bucket[hole] = 0;
  s->last = NULL;
  skeep_slot_drop(slot);
}

void skeep_step_forget_marks(skeep_step *s) {
  while (s->marks) skeep_step_forget(s, s->slot[s->capacity - s->marks]);
}

skeep_status skeep_step_pin(skeep_step *s, uint64_t cell, uint64_t generation, uint32_t operand,
                            struct skeep_slot **out) {
  struct skeep_slot *slot = skeep_slot_at(cell);
  if (!slot) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, offsetof(skeep_view, cell));
  struct skeep_slot *root = __atomic_load_n(&slot->root, __ATOMIC_ACQUIRE);
  if (!skeep_slot_live(slot, generation)) return skeep_fail(SKEEP_ERR_CLOSED, -1, 0);
  if (!skeep_step_holds(s, slot)) {
    const int only_mark = root != slot && skeep_step_holds(s, root);
    if (s->capacity - s->roots - s->marks < 2u - (root == slot || only_mark)) return skeep_fail(SKEEP_ERR_MEMORY, -1, s->capacity);
    const skeep_status st = skeep_cell_pin(cell, generation, &slot);
    if (st.code != SKEEP_OK) return st;
    keep(s, slot, operand);
    if (only_mark)
      skeep_slot_drop(root);
    else if (root != slot)
      keep(s, root, operand);
  }
  s->last = slot;
  *out = root;
  return skeep_ok();
}

skeep_status skeep_step_enter(skeep_step *s) {
  if (!s->running) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 1);
  if (s->first.code == SKEEP_OK) s->ops++;
  return s->first;
}

skeep_status skeep_step_keep(skeep_step *s, skeep_status status) {
  if (status.code != SKEEP_OK && s->first.code == SKEEP_OK && s->running) {
    s->first = status;
    s->failed_op = s->ops ? s->ops - 1 : 0;
  }
  return status;
}

uint64_t skeep_step_serial(const skeep_step *step) { return step->serial; }

skeep_status skeep_step_begin(skeep_step *s) {
  static uint64_t serials;
  if (!s || s->running) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  s->first = skeep_ok();
  s->failed_op = s->ops = 0;
  s->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
  s->running = 1;
  return skeep_ok();
}

skeep_status skeep_step_end(skeep_step *s) {
  SKEEP_KEEP_ERRNO;
  if (!s || !s->running) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, 0);
  skeep_step_forget_marks(s);
  for (uint32_t i = 0; i < s->roots; i++) {
    skeep_status st = skeep_root_verify(s->slot[i]);
    /* The change of the file may be what caused an error in the data. */
    const int of_data = s->first.code == SKEEP_ERR_VALUE || s->first.code == SKEEP_ERR_INDEX;
    if (st.code != SKEEP_OK && (s->first.code == SKEEP_OK || of_data)) {
      st.operand = s->use[i].operand;
      s->first = st;
      s->failed_op = s->use[i].op;
    }
    skeep_slot_drop(s->slot[i]);
  }
  memset(s->bucket, 0, (s->mask + 1) * sizeof *s->bucket);
  s->roots = 0;
  s->last = NULL;
  s->running = 0;
  return s->first;
}

void skeep_step_destroy(skeep_step *step) {
  SKEEP_KEEP_ERRNO;
  if (step && step->running) (void)skeep_step_end(step);
  free(step);
}
