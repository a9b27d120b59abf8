/* Storages: the slab of liveness slots, roots and what they own, marks, pins. */
#include "slot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLAB_RESERVE (256ull << 20) /* address space for a million slots */
#define SLAB_CHUNK (64ull << 10)    /* what the slab grows by */
#define HUGE_PAGE (2ull << 20)

uint64_t skeep_slab_base, skeep_slab_bytes;

/* Guards the free list, the lists of marks, the counters, and every opening and closing of a slot. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct skeep_slot *free_slots;
static uint64_t slab_usable; /* bytes of the reservation that are accessible */
static uint64_t last_id;
static skeep_counters counters;

static uint64_t *counter_of(uint32_t domain) {
  if (domain == SKEEP_DOMAIN_MAPPED) return &counters.mapped_bytes;
  return domain == SKEEP_DOMAIN_OFFHEAP ? &counters.offheap_bytes : &counters.heap_bytes;
}

/* Field numbers of ERR_ARGUMENT: the position of the parameter. */
static skeep_status bad_parameter(uint64_t position) { return skeep_fail(SKEEP_ERR_ARGUMENT, -1, position); }

/* ---- slots ---- */

/* A closed slot, or NULL when the slab is full or the system refuses. Lock held. */
static struct skeep_slot *slot_take(void) {
  struct skeep_slot *s = free_slots;
  if (s) {
    free_slots = s->below;
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

static void wake_waiting(struct skeep_slot *root) {
  if (__atomic_load_n(&root->waiting, __ATOMIC_SEQ_CST)) futex_wake_all(&root->pins);
}

/* Sleeps until at most own pins remain on the life of root that began as generation. */
static void wait_for_pins(struct skeep_slot *root, uint64_t own, uint64_t generation) {
  if ((__atomic_load_n(&root->pins, __ATOMIC_SEQ_CST) & SKEEP_PIN_COUNT) <= own) return;
  __atomic_add_fetch(&root->waiting, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    const uint64_t pins = __atomic_load_n(&root->pins, __ATOMIC_SEQ_CST);
    if ((pins & SKEEP_PIN_COUNT) <= own) break;
    if (__atomic_load_n(&root->generation, __ATOMIC_SEQ_CST) > generation + 1) break;
    futex_wait(&root->pins, (uint32_t)pins);
  }
  __atomic_sub_fetch(&root->waiting, 1, __ATOMIC_SEQ_CST);
}

/* Frees what a closed root owns and gives its slots back. Called once per life, with `own` pins left that
 * nobody will give back. */
static void root_free(struct skeep_slot *root, uint64_t own) {
  switch (root->owner) {
  case SKEEP_MALLOCED: free((void *)(uintptr_t)root->base); break;
  case SKEEP_FILE: close(root->fd); /* fall through */
  case SKEEP_MMAPPED: munmap((void *)(uintptr_t)root->base, root->length); break;
  case SKEEP_BORROWED:
    if (root->release) root->release(root->release_arg);
    break;
  }
  pthread_mutex_lock(&lock);
  counters.storages--;
  *counter_of(root->domain) -= root->bytes;
  __atomic_sub_fetch(&root->pins, SKEEP_CLOSING + own, __ATOMIC_SEQ_CST);
  slot_give(root);
  pthread_mutex_unlock(&lock);
  wake_waiting(root);
}

/* A retired root without pins: exactly one of those who see it so frees it. */
static void retire_finish(struct skeep_slot *root) {
  uint64_t idle = SKEEP_CLOSING | SKEEP_RETIRED;
  if (__atomic_compare_exchange_n(&root->pins, &idle, SKEEP_CLOSING, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    root_free(root, 0);
}

void skeep_root_unpin(struct skeep_slot *root) {
  const uint64_t pins = __atomic_sub_fetch(&root->pins, 1, __ATOMIC_SEQ_CST);
  if (pins == (SKEEP_CLOSING | SKEEP_RETIRED)) retire_finish(root);
  wake_waiting(root);
}

skeep_status skeep_cell_pin(uint64_t cell, uint64_t generation, struct skeep_slot **out) {
  struct skeep_slot *s = skeep_slot_at(cell);
  if (!s) return skeep_fail(SKEEP_ERR_ARGUMENT, -1, offsetof(skeep_view, cell));
  struct skeep_slot *root = __atomic_load_n(&s->root, __ATOMIC_ACQUIRE);
  if (!skeep_slot_live(s, generation)) return closed(s, generation);
  const uint64_t pins = __atomic_add_fetch(&root->pins, 1, __ATOMIC_SEQ_CST);
  const uint64_t now = __atomic_load_n(&s->generation, __ATOMIC_SEQ_CST);
  if ((pins & SKEEP_CLOSING) || now != generation) {
    skeep_root_unpin(root);
    return closed(s, generation);
  }
  *out = root;
  return skeep_ok();
}

skeep_status skeep_pin(skeep_storage s, skeep_storage *pin) {
  struct skeep_slot *root;
  if (!pin) return bad_parameter(1);
  const skeep_status st = skeep_cell_pin(s.cell, s.generation, &root);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? bad_parameter(0) : st;
  /* Odd while open, the even one behind it while closing: the pin keeps the slot in this life. */
  const uint64_t now = __atomic_load_n(&root->generation, __ATOMIC_ACQUIRE);
  *pin = (skeep_storage){(uint64_t)(uintptr_t)root, (now - 1) | 1};
  return st;
}

skeep_status skeep_unpin(skeep_storage pin) {
  struct skeep_slot *root = skeep_slot_at(pin.cell);
  if (!root || !(pin.generation & 1)) return bad_parameter(0);
  const uint64_t now = __atomic_load_n(&root->generation, __ATOMIC_ACQUIRE);
  if (__atomic_load_n(&root->root, __ATOMIC_ACQUIRE) != root) return bad_parameter(0);
  if (now != pin.generation && now != pin.generation + 1) return closed(root, pin.generation);
  uint64_t pins = __atomic_load_n(&root->pins, __ATOMIC_RELAXED);
  do {
    if (!(pins & SKEEP_PIN_COUNT)) return now == pin.generation ? bad_parameter(0) : closed(root, pin.generation);
  } while (!__atomic_compare_exchange_n(&root->pins, &pins, pins - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  if (pins - 1 == (SKEEP_CLOSING | SKEEP_RETIRED)) retire_finish(root);
  wake_waiting(root);
  return skeep_ok();
}

/* ---- making roots ---- */

/* Everything of a root but its slot. */
struct root {
  uint64_t address, bytes, base, length;
  uint32_t domain, readonly;
  enum skeep_owner owner;
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
  s->owner = r->owner;
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
    r.owner = SKEEP_MALLOCED;
  } else {
    r.length = ((bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)) + HUGE_PAGE; /* room to start at a huge page */
    void *p = mmap(NULL, r.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return skeep_fail(SKEEP_ERR_MEMORY, -1, bytes);
    r.base = (uint64_t)(uintptr_t)p;
    r.address = (r.base + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    r.owner = SKEEP_MMAPPED;
    (void)madvise((void *)(uintptr_t)r.address, bytes, MADV_HUGEPAGE); /* advice: small pages serve as well */
  }
  const skeep_status st = root_make(&r, out);
  if (st.code != SKEEP_OK) {
    if (r.owner == SKEEP_MALLOCED)
      free((void *)(uintptr_t)r.base);
    else
      munmap((void *)(uintptr_t)r.base, r.length);
  }
  return st;
}

skeep_status skeep_storage_borrow(void *address, uint64_t bytes, uint32_t domain, uint32_t readonly,
                                  void (*release)(void *arg), void *arg, skeep_storage *out) {
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
                         .owner = SKEEP_BORROWED,
                         .fd = -1,
                         .release = release,
                         .release_arg = arg};
  return root_make(&r, out);
}

skeep_status skeep_storage_map(int fd, uint64_t offset, uint64_t length, skeep_storage *out) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  struct root r = {.bytes = length, .domain = SKEEP_DOMAIN_MAPPED, .readonly = 1, .owner = SKEEP_FILE};
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
  if (!info) return bad_parameter(1);
  struct skeep_slot *root;
  const skeep_status st = skeep_cell_pin(h.cell, h.generation, &root);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? bad_parameter(0) : st;
  const uint64_t pins = __atomic_load_n(&root->pins, __ATOMIC_RELAXED) & SKEEP_PIN_COUNT;
  *info = (skeep_storage_info){.address = root->address,
                               .bytes = root->bytes,
                               .id = root->id,
                               .pins = pins - 1, /* without the one of this call */
                               .domain = root->domain,
                               .readonly = root->readonly,
                               .is_mark = (uint64_t)(uintptr_t)root != h.cell};
  skeep_root_unpin(root);
  return st;
}

skeep_status skeep_root_verify(const struct skeep_slot *root) {
  struct stat now;
  if (root->owner != SKEEP_FILE) return skeep_ok();
  if (fstat(root->fd, &now)) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  if (now.st_size == root->file_size && now.st_mtim.tv_sec == root->mtime_s && now.st_mtim.tv_nsec == root->mtime_ns)
    return skeep_ok();
  return skeep_fail(SKEEP_ERR_CHANGED, -1, root->id);
}

/* Runs ask on the pinned root of h. */
static skeep_status with_root(skeep_storage h, skeep_status (*ask)(const struct skeep_slot *, void *), void *arg) {
  struct skeep_slot *root;
  skeep_status st = skeep_cell_pin(h.cell, h.generation, &root);
  if (st.code != SKEEP_OK) return st.code == SKEEP_ERR_ARGUMENT ? bad_parameter(0) : st;
  st = ask(root, arg);
  skeep_root_unpin(root);
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
  if (a->byte > root->bytes || a->length > root->bytes - a->byte) return skeep_fail(SKEEP_ERR_BOUNDS, -1, a->length);
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

/* Closes the marks of a root, newest first: all those inside `last`, or all when it is NULL. Lock held. */
static void marks_close(struct skeep_slot *root, const struct skeep_slot *last) {
  for (struct skeep_slot *m = root->marks, *below; m; m = below) {
    if (m == last) break;
    below = m->below;
    root->marks = below;
    slot_close(m);
    slot_give(m);
  }
}

skeep_status skeep_storage_close(skeep_storage h, skeep_step *step) {
  skeep_status st;
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st);
  if (root) {
    __atomic_or_fetch(&root->pins, SKEEP_CLOSING, __ATOMIC_SEQ_CST);
    slot_close(root);
    marks_close(root, NULL);
  }
  pthread_mutex_unlock(&lock);
  if (!root) return st;
  const uint64_t own = step && skeep_step_holds(step, root);
  wait_for_pins(root, own, h.generation);
  if (own) skeep_step_forget(step, root);
  root_free(root, own);
  return skeep_ok();
}

skeep_status skeep_storage_try_close(skeep_storage h, skeep_step *step) {
  skeep_status st;
  uint64_t own = 0;
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st);
  if (root) {
    own = step && skeep_step_holds(step, root);
    uint64_t pins = own; /* only then: in one step with refusing new pins */
    if (__atomic_compare_exchange_n(&root->pins, &pins, own | SKEEP_CLOSING, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      slot_close(root);
      marks_close(root, NULL);
    } else {
      st = skeep_fail(SKEEP_ERR_BUSY, -1, (pins & SKEEP_PIN_COUNT) - own);
      root = NULL;
    }
  }
  pthread_mutex_unlock(&lock);
  if (!root) return st;
  if (own) skeep_step_forget(step, root);
  root_free(root, own);
  return skeep_ok();
}

skeep_status skeep_storage_retire(skeep_storage h, uint64_t *left) {
  skeep_status st;
  if (!left) return bad_parameter(1);
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st);
  if (root) {
    slot_close(root);
    marks_close(root, NULL);
    *left = __atomic_or_fetch(&root->pins, SKEEP_CLOSING | SKEEP_RETIRED, __ATOMIC_SEQ_CST) & SKEEP_PIN_COUNT;
    st = skeep_ok();
  } else if (st.code == SKEEP_ERR_CLOSED && (h.generation & 1)) {
    /* Lock held: the slot cannot begin another life meanwhile. */
    const struct skeep_slot *s = skeep_slot_at(h.cell);
    const uint64_t pins = s ? __atomic_load_n(&s->pins, __ATOMIC_SEQ_CST) : 0;
    if ((pins & SKEEP_RETIRED) && (pins & SKEEP_PIN_COUNT) && s->generation == h.generation + 1 && s->root == s) {
      *left = pins & SKEEP_PIN_COUNT;
      st = skeep_ok();
    }
  }
  pthread_mutex_unlock(&lock);
  if (root) retire_finish(root);
  return st;
}

/* ---- marks ---- */

skeep_status skeep_mark_open(skeep_storage h, skeep_storage *mark) {
  skeep_status st;
  if (!mark) return bad_parameter(1);
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st), *m = root ? slot_take() : NULL;
  if (m) {
    __atomic_store_n(&m->root, root, __ATOMIC_RELEASE);
    __atomic_store_n(&m->id, root->id, __ATOMIC_RELEASE);
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
  skeep_status st;
  pthread_mutex_lock(&lock);
  struct skeep_slot *m = open_mark(mark, &st), *root = m ? m->root : NULL;
  const uint64_t generation = root ? root->generation : 0, own = root && step && skeep_step_holds(step, root);
  if (m) {
    marks_close(root, m);
    root->marks = m->below;
    slot_close(m);
    slot_give(m);
  }
  pthread_mutex_unlock(&lock);
  if (!m) return st;
  wait_for_pins(root, own, generation);
  return skeep_ok();
}

skeep_status skeep_mark_renew(skeep_storage *mark, skeep_step *step) {
  skeep_status st;
  if (!mark) return bad_parameter(0);
  pthread_mutex_lock(&lock);
  struct skeep_slot *m = open_mark(*mark, &st), *root = m ? m->root : NULL;
  const uint64_t generation = root ? root->generation : 0, own = root && step && skeep_step_holds(step, root);
  if (m) {
    marks_close(root, m);
    slot_close(m);
    *mark = slot_open(m);
  }
  pthread_mutex_unlock(&lock);
  if (!m) return st;
  wait_for_pins(root, own, generation);
  return skeep_ok();
}

skeep_status skeep_storage_reset(skeep_storage h, skeep_step *step) {
  skeep_status st;
  pthread_mutex_lock(&lock);
  struct skeep_slot *root = open_root(h, &st);
  const uint64_t own = root && step && skeep_step_holds(step, root);
  if (root) marks_close(root, NULL);
  pthread_mutex_unlock(&lock);
  if (!root) return st;
  wait_for_pins(root, own, h.generation);
  return skeep_ok();
}
