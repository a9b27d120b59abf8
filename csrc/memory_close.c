/* Closing storages; opening, renewing and releasing marks. */
#include "memory_slab.h"

/* Closes the marks of a root that were opened after `last` (NULL: all) and removes them from its list. The caller owns
 * the returned list, linked by below, and must retire each of them. Lock held. */
static struct skeep_slot *marks_close(struct skeep_slot *root, const struct skeep_slot *last) {
  struct skeep_slot *const newest = root->marks;
  if (newest == last) return NULL;
  for (struct skeep_slot *m = newest;; m = m->below) {
    skeep_slot_close(m);
    if (m->below != last) continue;
    root->marks = m->below;
    m->below = NULL;
    return newest;
  }
}

/* Waits until these closed marks have no pins, since their bytes are about to be used again, and retires them. The
 * caller has given back its own step's pins on all marks before, so that no two threads wait for each other. */
static void marks_wait(struct skeep_slot *m) {
  for (struct skeep_slot *below; m; m = below) {
    below = m->below;
    (void)skeep_slot_wait(m, m->generation);
    skeep_slot_retire(m);
  }
}

/* Closes a root and its marks and retires them. if_idle: only when no one but step has pins on the root. */
static skeep_status root_close(skeep_storage h, skeep_step *step, int if_idle) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *marks = NULL;
  skeep_status st;
  skeep_slab_lock();
  struct skeep_slot *root = skeep_open_root(h, &st);
  if (root) {
    const uint64_t own = step && skeep_step_holds(step, root);
    uint64_t pins = own; /* with if_idle: the check and the refusal of new pins are one atomic operation */
    if (!if_idle) {
      __atomic_or_fetch(&root->pins, SKEEP_CLOSING, __ATOMIC_SEQ_CST);
    } else if (!__atomic_compare_exchange_n(&root->pins, &pins, own | SKEEP_CLOSING, 0, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST)) {
      st = skeep_fail(SKEEP_ERR_BUSY, -1, (pins & SKEEP_PIN_COUNT) - own);
      root = NULL;
    }
  }
  if (root) {
    skeep_slot_close(root);
    marks = marks_close(root, NULL);
  }
  skeep_slab_unlock();
  if (!root) return st;
  if (step) {
    skeep_step_forget_marks(step);
    skeep_step_forget(step, root);
  }
  for (struct skeep_slot *below; marks; marks = below) {
    below = marks->below;
    skeep_slot_retire(marks);
  }
  skeep_slot_retire(root);
  return skeep_ok();
}

skeep_status skeep_storage_close(skeep_storage h, skeep_step *step) { return root_close(h, step, 0); }

skeep_status skeep_storage_try_close(skeep_storage h, skeep_step *step) { return root_close(h, step, 1); }

skeep_status skeep_storage_left(skeep_storage h, uint64_t *pins) {
  const struct skeep_slot *s = skeep_slot_at(h.cell);
  if (!s || !(h.generation & 1)) return skeep_bad_parameter(0);
  if (!pins) return skeep_bad_parameter(1);
  skeep_slab_lock();
  skeep_status st = skeep_closed(s, h.generation);
  /* Lock held: the slot cannot get another use meanwhile. */
  if (s->generation == h.generation) {
    st = skeep_bad_parameter(0);
  } else if (s->generation == h.generation + 1 && s->kind >= SKEEP_BORROWED) {
    *pins = __atomic_load_n(&s->pins, __ATOMIC_SEQ_CST) & SKEEP_PIN_COUNT;
    st = skeep_ok();
  }
  skeep_slab_unlock();
  return st;
}

skeep_status skeep_mark_open(skeep_storage h, skeep_storage *mark) {
  SKEEP_KEEP_ERRNO;
  skeep_status st;
  if (!mark) return skeep_bad_parameter(1);
  skeep_slab_lock();
  struct skeep_slot *root = skeep_open_root(h, &st), *m = root ? skeep_slot_take() : NULL;
  if (m) {
    __atomic_store_n(&m->root, root, __ATOMIC_RELEASE);
    __atomic_store_n(&m->id, root->id, __ATOMIC_RELEASE);
    m->kind = SKEEP_MARK;
    m->below = root->marks;
    root->marks = m;
    *mark = skeep_slot_open(m);
    st = skeep_ok();
  } else if (root) {
    st = skeep_fail(SKEEP_ERR_MEMORY, -1, SKEEP_SLOT_BYTES);
  }
  skeep_slab_unlock();
  return st;
}

/* The open mark of a handle, or NULL with *st saying why. Lock held. */
static struct skeep_slot *open_mark(skeep_storage h, skeep_status *st) {
  struct skeep_slot *s = skeep_slot_at(h.cell);
  *st = skeep_bad_parameter(0);
  if (!s) return NULL;
  if (!skeep_slot_live(s, h.generation)) {
    *st = skeep_closed(s, h.generation);
    return NULL;
  }
  return s->root != s ? s : NULL; /* a root is no mark: ERR_ARGUMENT */
}

skeep_status skeep_mark_release(skeep_storage mark, skeep_step *step) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *ended = NULL;
  skeep_status st;
  if (step) skeep_step_forget_marks(step);
  skeep_slab_lock();
  struct skeep_slot *m = open_mark(mark, &st);
  if (m) ended = marks_close(m->root, m->below);
  skeep_slab_unlock();
  if (!m) return st;
  marks_wait(ended);
  return skeep_ok();
}

skeep_status skeep_mark_renew(skeep_storage *mark, skeep_step *step) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *ended = NULL;
  uint64_t generation = 0;
  skeep_status st;
  if (!mark) return skeep_bad_parameter(0);
  if (step) skeep_step_forget_marks(step);
  skeep_slab_lock();
  struct skeep_slot *m = open_mark(*mark, &st);
  if (m) {
    ended = marks_close(m->root, m);
    skeep_slot_close(m);
    *mark = skeep_slot_open(m);
    generation = mark->generation;
  }
  skeep_slab_unlock();
  if (!m) return st;
  marks_wait(ended);
  /* m is open again, so another thread may close it while this one waits; its bytes are then no longer the caller's. */
  return skeep_slot_wait(m, generation) ? skeep_ok() : skeep_closed(m, generation);
}

skeep_status skeep_storage_reset(skeep_storage h, skeep_step *step) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *ended = NULL;
  skeep_status st;
  if (step) skeep_step_forget_marks(step);
  skeep_slab_lock();
  struct skeep_slot *root = skeep_open_root(h, &st);
  if (root) ended = marks_close(root, NULL);
  skeep_slab_unlock();
  if (!root) return st;
  marks_wait(ended);
  return skeep_ok();
}
