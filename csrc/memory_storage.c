/* Storages: the slab of liveness slots, roots and what they own, marks, pins. */
#include "memory_slot.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLAB_RESERVE (512ull << 20) /* address space for a million slots */
#define SLAB_CHUNK (64ull << 10)    /* what the slab grows by */
#define HUGE_PAGE (2ull << 20)

uint64_t skeep_slab_base, skeep_slab_bytes;

/* Guards the free list, the lists of marks, kinds, the counters, and every opening and closing of a slot. Nothing
 * that allocates or calls a host runs under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct skeep_slot *free_slots;
static uint64_t slab_usable; /* bytes of the reservation that are accessible */
static uint64_t last_id;
static skeep_counters counters;

/* A fork that finds another thread in the lock would leave it locked in the child for ever. */
static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void keep_forks_out(void) { (void)pthread_atfork(take_lock, give_lock, give_lock); }

static uint64_t *counter_of(uint32_t domain) {
  if (domain == SKEEP_DOMAIN_MAPPED) return &counters.mapped_bytes;
  return domain == SKEEP_DOMAIN_OFFHEAP ? &counters.offheap_bytes : &counters.heap_bytes;
}

/* Field numbers of ERR_ARGUMENT: the position of the parameter. */
static skeep_status bad_parameter(uint64_t position) { return skeep_fail(SKEEP_ERR_ARGUMENT, -1, position); }

/* ---- slots ---- */

/* A closed slot without a name, or NULL when the slab is full or the system refuses. Lock held. */
static struct skeep_slot *slot_take(void) {
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
  counters.slots++;
  return s;
}

static void slot_give(struct skeep_slot *s) {
  s->kind = SKEEP_FREE;
  s->below = free_slots;
  free_slots = s;
}

/* Opens a slot whose fields are set; closes it. Lock held: nobody else changes a generation. */
static skeep_storage slot_open(struct skeep_slot *s) {
  const uint64_t g = s->generation + 1;
  __atomic_store_n(&s->generation, g, __ATOMIC_RELEASE);
  return (skeep_storage){(uint64_t)(uintptr_t)s, g};
}
static void slot_close(struct skeep_slot *s) {
  __atomic_store_n(&s->generation, s->generation + 1, __ATOMIC_SEQ_CST);
}
/* Begins or ends a pin's use of a slot, which stays closed to everybody else. Lock held. */
static skeep_storage slot_turn(struct skeep_slot *s) {
  const uint64_t g = s->generation + 2;
  __atomic_store_n(&s->generation, g, __ATOMIC_RELEASE);
  return (skeep_storage){(uint64_t)(uintptr_t)s, g};
}

/* ERR_CLOSED for a handle; the id is known while the slot has not been reused. */
static skeep_status closed(const struct skeep_slot *s, uint64_t generation) {
  const uint64_t id = __atomic_load_n(&s->id, __ATOMIC_ACQUIRE);
  const uint64_t now = __atomic_load_n(&s->generation, __ATOMIC_ACQUIRE);
  return skeep_fail(SKEEP_ERR_CLOSED, -1, now == generation + 1 ? id : 0);
}

/* ---- pins ---- */

static void futex_wait(void *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake_all(void *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }
/* The kernel waits on 32 bits: the count is the low half of pins, which comes first on both platforms. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of pins is its first word");

/* Sleeps until s has no pins; 0 when it goes on to another generation meanwhile. */
static int wait_for_pins(struct skeep_slot *s, uint64_t generation) {
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

/* Ends the life of a retired slot without pins: exactly one of those who see it so does. */
static void finish(struct skeep_slot *s) {
  uint64_t idle = SKEEP_CLOSING | SKEEP_RETIRED;
  if (!__atomic_compare_exchange_n(&s->pins, &idle, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
  const int is_root = s->root == s;
  if (is_root) root_free(s);
  pthread_mutex_lock(&lock);
  if (is_root) {
    counters.storages--;
    *counter_of(s->domain) -= s->bytes;
  }
  slot_give(s);
  pthread_mutex_unlock(&lock);
}

/* Leaves a closed slot to its pins: the last one ends its life, or this call when there is none. */
static void retire(struct skeep_slot *s) {
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
  if (!skeep_slot_live(s, generation)) return closed(s, generation);
  uint64_t pins = __atomic_add_fetch(&s->pins, 1, __ATOMIC_SEQ_CST);
  if (root != s) pins = __atomic_add_fetch(&root->pins, 1, __ATOMIC_SEQ_CST);
  const uint64_t now = __atomic_load_n(&s->generation, __ATOMIC_SEQ_CST);
  if ((pins & SKEEP_CLOSING) || now != generation) {
    /* Not skeep_slot_unpin: s may serve another root by now. */
    skeep_slot_drop(s);
    if (root != s) skeep_slot_drop(root);
    return closed(s, generation);
  }
  *out = s;
  return skeep_ok();
}

skeep_status skeep_pin(skeep_storage h, skeep_storage *pin) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *pinned;
  if (!pin) return bad_parameter(1);
  const skeep_status st = skeep_cell_pin(h.cell, h.generation, &pinned);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? bad_parameter(0) : st;
  pthread_mutex_lock(&lock);
  struct skeep_slot *p = slot_take();
  if (p) {
    p->kind = SKEEP_PIN;
    p->pinned = pinned;
    __atomic_store_n(&p->id, pinned->id, __ATOMIC_RELEASE);
    *pin = slot_turn(p);
  }
  pthread_mutex_unlock(&lock);
  if (p) return st;
  skeep_slot_unpin(pinned);
  return skeep_fail(SKEEP_ERR_MEMORY, -1, SKEEP_SLOT_BYTES);
}

skeep_status skeep_unpin(skeep_storage pin) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *p = skeep_slot_at(pin.cell), *pinned = NULL;
  if (!p || (pin.generation & 1)) return bad_parameter(0);
  skeep_status st = skeep_ok();
  pthread_mutex_lock(&lock);
  if (p->kind == SKEEP_PIN && p->generation == pin.generation) {
    pinned = p->pinned;
    (void)slot_turn(p);
    slot_give(p);
  } else {
    st = skeep_fail(SKEEP_ERR_CLOSED, -1, p->generation == pin.generation + 2 ? p->id : 0);
  }
  pthread_mutex_unlock(&lock);
  if (pinned) skeep_slot_unpin(pinned);
  return st;
}

/* ---- making roots ---- */

/* Everything of a root but its slot. */
struct root {
  uint64_t address, bytes, base, length;
  uint32_t domain, readonly;
  enum skeep_kind kind;
  int fd;
  struct stat file;
  void (*release)(void *);
  void *release_arg;
};

static skeep_status root_make(const struct root *r, skeep_storage *out) {
  pthread_mutex_lock(&lock);
  struct skeep_slot *s = slot_take();
  if (!s) {
    pthread_mutex_unlock(&lock);
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
  counters.storages++;
  *counter_of(r->domain) += r->bytes;
  *out = slot_open(s);
  pthread_mutex_unlock(&lock);
  return skeep_ok();
}

skeep_status skeep_storage_allocate(uint64_t bytes, uint64_t alignment, skeep_storage *out) {
  SKEEP_KEEP_ERRNO;
  if (!alignment) alignment = 64;
  if (!bytes) return bad_parameter(0);
  if (alignment & (alignment - 1) || alignment > HUGE_PAGE) return bad_parameter(1);
  if (!out) return bad_parameter(2);
  if (bytes > (uint64_t)PTRDIFF_MAX - 2 * HUGE_PAGE) return skeep_fail(SKEEP_ERR_MEMORY, -1, bytes);
  if (alignment < 64) alignment = 64;
  struct root r = {.bytes = bytes, .domain = SKEEP_DOMAIN_OFFHEAP, .fd = -1};
  if (bytes < HUGE_PAGE) {
    r.length = (bytes + alignment - 1) & ~(alignment - 1);
    void *p = aligned_alloc(alignment, r.length);
    if (!p) return skeep_fail(SKEEP_ERR_MEMORY, -1, bytes);
    memset(p, 0, r.length);
    r.base = r.address = (uint64_t)(uintptr_t)p;
    r.kind = SKEEP_MALLOCED;
  } else {
    r.length = ((bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)) + HUGE_PAGE; /* room to start at a huge page */
    void *p = mmap(NULL, r.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return skeep_fail(SKEEP_ERR_MEMORY, -1, bytes);
    r.base = (uint64_t)(uintptr_t)p;
    r.address = (r.base + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    r.kind = SKEEP_MMAPPED;
    (void)madvise((void *)(uintptr_t)r.address, bytes, MADV_HUGEPAGE); /* advice: small pages serve as well */
  }
  const skeep_status st = root_make(&r, out);
  if (st.code != SKEEP_OK) {
    if (r.kind == SKEEP_MALLOCED)
      free((void *)(uintptr_t)r.base);
    else
      munmap((void *)(uintptr_t)r.base, r.length);
  }
  return st;
}

skeep_status skeep_storage_borrow(void *address, uint64_t bytes, uint32_t domain, uint32_t readonly,
                                  void (*release)(void *arg), void *arg, skeep_storage *out) {
  SKEEP_KEEP_ERRNO;
  const uint64_t a = (uint64_t)(uintptr_t)address;
  if (!address) return bad_parameter(0);
  if (!bytes) return bad_parameter(1);
  if (domain == SKEEP_DOMAIN_DEVICE) return skeep_fail(SKEEP_ERR_NO_KERNEL, -1, 0);
  if (domain != SKEEP_DOMAIN_HEAP && domain != SKEEP_DOMAIN_OFFHEAP) return bad_parameter(2);
  if (!out) return bad_parameter(6);
  if (a + bytes < a) return skeep_fail(SKEEP_ERR_BOUNDS, -1, bytes);
  const struct root r = {.address = a,
                         .bytes = bytes,
                         .domain = domain,
                         .readonly = readonly != 0,
                         .kind = SKEEP_BORROWED,
                         .fd = -1,
                         .release = release,
                         .release_arg = arg};
  return root_make(&r, out);
}

skeep_status skeep_storage_map(int fd, uint64_t offset, uint64_t length, skeep_storage *out) {
  SKEEP_KEEP_ERRNO;
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  struct root r = {.bytes = length, .domain = SKEEP_DOMAIN_MAPPED, .readonly = 1, .kind = SKEEP_FILE};
  if (!length) return bad_parameter(2);
  if (!out) return bad_parameter(3);
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
    st = root_make(&r, out);
    if (st.code != SKEEP_OK) munmap(p, r.length);
  }
  if (st.code != SKEEP_OK) close(r.fd);
  return st;
}

/* ---- asking ---- */

skeep_status skeep_storage_info_of(skeep_storage h, skeep_storage_info *info) {
  SKEEP_KEEP_ERRNO;
  if (!info) return bad_parameter(1);
  struct skeep_slot *s;
  const skeep_status st = skeep_cell_pin(h.cell, h.generation, &s);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? bad_parameter(0) : st;
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

skeep_status skeep_root_verify(const struct skeep_slot *root) {
  struct stat now;
  if (root->kind != SKEEP_FILE) return skeep_ok();
  if (fstat(root->fd, &now)) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  if (now.st_size == root->file_size && now.st_mtim.tv_sec == root->mtime_s && now.st_mtim.tv_nsec == root->mtime_ns)
    return skeep_ok();
  return skeep_fail(SKEEP_ERR_CHANGED, -1, root->id);
}

/* Runs ask on the pinned root of h. */
static skeep_status with_root(skeep_storage h, skeep_status (*ask)(const struct skeep_slot *, void *), void *arg) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *s;
  skeep_status st = skeep_cell_pin(h.cell, h.generation, &s);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? bad_parameter(0) : st;
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
  if (root->domain != SKEEP_DOMAIN_MAPPED) return bad_parameter(0);
  if (a->byte > root->bytes || a->length > root->bytes - a->byte)
    return skeep_fail(SKEEP_ERR_BOUNDS, -1, a->byte + a->length < a->byte ? UINT64_MAX : a->byte + a->length);
  if (!a->length) return skeep_ok();
  const uint64_t from = (root->address + a->byte) & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
  if (madvise((void *)(uintptr_t)from, root->address + a->byte + a->length - from, a->advice))
    return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  return skeep_ok();
}

skeep_status skeep_storage_advise(skeep_storage h, uint64_t byte, uint64_t length, uint32_t advice) {
  static const int words[] = {[SKEEP_ADVICE_NORMAL] = MADV_NORMAL,
                              [SKEEP_ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
                              [SKEEP_ADVICE_WILLNEED] = MADV_WILLNEED,
                              [SKEEP_ADVICE_DONTNEED] = MADV_DONTNEED};
  if (advice >= sizeof words / sizeof words[0]) return bad_parameter(3);
  struct advice a = {byte, length, words[advice]};
  return with_root(h, ask_advise, &a);
}

static skeep_status ask_resident(const struct skeep_slot *root, void *arg) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = root->address + root->bytes;
  unsigned char pages[4096];
  uint64_t *sum = arg;
  if (root->domain != SKEEP_DOMAIN_MAPPED) return bad_parameter(0);
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
  if (!bytes) return bad_parameter(1);
  uint64_t sum = 0;
  const skeep_status st = with_root(h, ask_resident, &sum);
  if (st.code == SKEEP_OK) *bytes = sum;
  return st;
}

void skeep_counters_read(skeep_counters *out) {
  if (!out) return;
  pthread_mutex_lock(&lock);
  *out = counters;
  pthread_mutex_unlock(&lock);
}

/* ---- closing ---- */

/* The open root of a handle, or NULL with *st saying why. Lock held. */
static struct skeep_slot *open_root(skeep_storage h, skeep_status *st) {
  struct skeep_slot *s = skeep_slot_at(h.cell);
  *st = bad_parameter(0);
  if (!s) return NULL;
  if (!skeep_slot_live(s, h.generation)) {
    *st = closed(s, h.generation);
    return NULL;
  }
  return s->root == s ? s : NULL; /* a mark is no root: ERR_ARGUMENT */
}

/* Takes the marks of a root that were opened after `last` (NULL: all) out of its list and closes them. They are the
 * caller's, linked by below, until it retires them. Lock held. */
static struct skeep_slot *marks_close(struct skeep_slot *root, const struct skeep_slot *last) {
  struct skeep_slot *const newest = root->marks;
  if (newest == last) return NULL;
  for (struct skeep_slot *m = newest;; m = m->below) {
    slot_close(m);
    if (m->below != last) continue;
    root->marks = m->below;
    m->below = NULL;
    return newest;
  }
}

/* Waits until nobody has a pin on closed marks, since their bytes serve somebody else next. Whoever waits gave the
 * pins of its own step on any marks back before, so that no two wait for each other. */
static void marks_wait(struct skeep_slot *m) {
  for (struct skeep_slot *below; m; m = below) {
    below = m->below;
    (void)wait_for_pins(m, m->generation);
    retire(m);
  }
}

/* Closes a root and its marks, if_idle only when nobody but step pins it, and leaves them to their pins. */
static skeep_status root_close(skeep_storage h, skeep_step *step, int if_idle) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *marks = NULL;
  skeep_status st;
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st);
  if (root) {
    const uint64_t own = step && skeep_step_holds(step, root);
    uint64_t pins = own; /* only then: in one step with refusing new pins */
    if (!if_idle) {
      __atomic_or_fetch(&root->pins, SKEEP_CLOSING, __ATOMIC_SEQ_CST);
    } else if (!__atomic_compare_exchange_n(&root->pins, &pins, own | SKEEP_CLOSING, 0, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST)) {
      st = skeep_fail(SKEEP_ERR_BUSY, -1, (pins & SKEEP_PIN_COUNT) - own);
      root = NULL;
    }
  }
  if (root) {
    slot_close(root);
    marks = marks_close(root, NULL);
  }
  pthread_mutex_unlock(&lock);
  if (!root) return st;
  if (step) {
    skeep_step_forget_marks(step);
    skeep_step_forget(step, root);
  }
  for (struct skeep_slot *below; marks; marks = below) {
    below = marks->below;
    retire(marks);
  }
  retire(root);
  return skeep_ok();
}

skeep_status skeep_storage_close(skeep_storage h, skeep_step *step) { return root_close(h, step, 0); }

skeep_status skeep_storage_try_close(skeep_storage h, skeep_step *step) { return root_close(h, step, 1); }

skeep_status skeep_storage_left(skeep_storage h, uint64_t *pins) {
  const struct skeep_slot *s = skeep_slot_at(h.cell);
  if (!s || !(h.generation & 1)) return bad_parameter(0);
  if (!pins) return bad_parameter(1);
  pthread_mutex_lock(&lock);
  skeep_status st = closed(s, h.generation);
  /* Lock held: the slot cannot begin another life meanwhile. */
  if (s->generation == h.generation) {
    st = bad_parameter(0);
  } else if (s->generation == h.generation + 1 && s->kind >= SKEEP_BORROWED) {
    *pins = __atomic_load_n(&s->pins, __ATOMIC_SEQ_CST) & SKEEP_PIN_COUNT;
    st = skeep_ok();
  }
  pthread_mutex_unlock(&lock);
  return st;
}

/* ---- marks ---- */

skeep_status skeep_mark_open(skeep_storage h, skeep_storage *mark) {
  SKEEP_KEEP_ERRNO;
  skeep_status st;
  if (!mark) return bad_parameter(1);
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st), *m = root ? slot_take() : NULL;
  if (m) {
    __atomic_store_n(&m->root, root, __ATOMIC_RELEASE);
    __atomic_store_n(&m->id, root->id, __ATOMIC_RELEASE);
    m->kind = SKEEP_MARK;
    m->below = root->marks;
    root->marks = m;
    *mark = slot_open(m);
    st = skeep_ok();
  } else if (root) {
    st = skeep_fail(SKEEP_ERR_MEMORY, -1, SKEEP_SLOT_BYTES);
  }
  pthread_mutex_unlock(&lock);
  return st;
}

/* The open mark of a handle, or NULL with *st saying why. Lock held. */
static struct skeep_slot *open_mark(skeep_storage h, skeep_status *st) {
  struct skeep_slot *s = skeep_slot_at(h.cell);
  *st = bad_parameter(0);
  if (!s) return NULL;
  if (!skeep_slot_live(s, h.generation)) {
    *st = closed(s, h.generation);
    return NULL;
  }
  return s->root != s ? s : NULL; /* a root is no mark: ERR_ARGUMENT */
}

skeep_status skeep_mark_release(skeep_storage mark, skeep_step *step) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *ended = NULL;
  skeep_status st;
  if (step) skeep_step_forget_marks(step);
  pthread_mutex_lock(&lock);
  struct skeep_slot *m = open_mark(mark, &st);
  if (m) ended = marks_close(m->root, m->below);
  pthread_mutex_unlock(&lock);
  if (!m) return st;
  marks_wait(ended);
  return skeep_ok();
}

skeep_status skeep_mark_renew(skeep_storage *mark, skeep_step *step) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *ended = NULL;
  uint64_t generation = 0;
  skeep_status st;
  if (!mark) return bad_parameter(0);
  if (step) skeep_step_forget_marks(step);
  pthread_mutex_lock(&lock);
  struct skeep_slot *m = open_mark(*mark, &st);
  if (m) {
    ended = marks_close(m->root, m);
    slot_close(m);
    *mark = slot_open(m);
    generation = mark->generation;
  }
  pthread_mutex_unlock(&lock);
  if (!m) return st;
  marks_wait(ended);
  /* m is open, so others may close it meanwhile: then its bytes are not the caller's any more. */
  return wait_for_pins(m, generation) ? skeep_ok() : closed(m, generation);
}

skeep_status skeep_storage_reset(skeep_storage h, skeep_step *step) {
  SKEEP_KEEP_ERRNO;
  struct skeep_slot *ended = NULL;
  skeep_status st;
  if (step) skeep_step_forget_marks(step);
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st);
  if (root) ended = marks_close(root, NULL);
  pthread_mutex_unlock(&lock);
  if (!root) return st;
  marks_wait(ended);
  return skeep_ok();
}

/* ---- names ---- */

/* The slot for which is(slot, value) holds, or NULL. Lock held. Looks at every slot: for messages. */
static struct skeep_slot *slot_find(int (*is)(const struct skeep_slot *, uint64_t), uint64_t value) {
  struct skeep_slot *slots = (struct skeep_slot *)(uintptr_t)skeep_slab_base;
  for (uint64_t i = 0; i < skeep_slab_bytes / SKEEP_SLOT_BYTES; i++)
    if (is(&slots[i], value)) return &slots[i];
  return NULL;
}

/* Marks and pins have their root's id, and no name. */
static int named(const struct skeep_slot *s, uint64_t id) { return s->id == id && s->name[0]; }
static int holds(const struct skeep_slot *s, uint64_t address) {
  return s->kind >= SKEEP_BORROWED && (s->generation & 1) && address - s->address < s->bytes;
}

uint64_t skeep_storage_at(uint64_t address) {
  pthread_mutex_lock(&lock);
  const struct skeep_slot *root = slot_find(holds, address);
  const uint64_t id = root ? root->id : 0;
  pthread_mutex_unlock(&lock);
  return id;
}

skeep_status skeep_storage_set_name(skeep_storage h, const char *name) {
  skeep_status st;
  size_t length = name ? strlen(name) : 0;
  const char *cut = "";
  if (length >= SKEEP_NAME_BYTES) { /* the end of a path tells most; it begins at a whole character of UTF-8 */
    name += length - (SKEEP_NAME_BYTES - 4);
    while ((*name & 0xc0) == 0x80) name++;
    length = strlen(name);
    cut = "...";
  }
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st);
  if (root) {
    memcpy(root->name, cut, strlen(cut));
    if (length) memcpy(root->name + strlen(cut), name, length);
    root->name[strlen(cut) + length] = 0;
    st = skeep_ok();
  }
  pthread_mutex_unlock(&lock);
  return st;
}

size_t skeep_storage_name(uint64_t id, char *text, size_t size) {
  pthread_mutex_lock(&lock);
  const struct skeep_slot *root = slot_find(named, id);
  const size_t length = root ? strlen(root->name) : 0;
  if (text && size) {
    const size_t fits = length < size ? length : size - 1;
    if (fits) memcpy(text, root->name, fits);
    text[fits] = 0;
  }
  pthread_mutex_unlock(&lock);
  return length;
}
