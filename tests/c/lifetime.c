/* Closes, pins, steps and marks in every order: from one thread, compared with a model of the rules, and from many
 * threads at once. Bytes are freed once and never while pinned, and no call waits for pins that do not concern it. The
 * argument is the number of rounds of each test. */
#include "watch.h"

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

static const int64_t one[] = {1};
static skeep_pool *pool;

/* A borrowed storage of a few floats that records its release and checks that no pin was held then. */
struct lent {
  skeep_storage storage;
  float memory[16];
  uint64_t released, users; /* users: pins that are known to be held */
};

static void take_back(void *arg) {
  struct lent *l = arg;
  CHECK(__atomic_load_n(&l->users, __ATOMIC_SEQ_CST) == 0);
  __atomic_add_fetch(&l->released, 1, __ATOMIC_SEQ_CST);
}
static void lend(struct lent *l) {
  l->released = l->users = 0;
  NEED(skeep_storage_borrow(l->memory, sizeof l->memory, SKEEP_DOMAIN_HEAP, 0, take_back, l, &l->storage).code == SKEEP_OK);
}
static uint64_t released(const struct lent *l) { return __atomic_load_n(&l->released, __ATOMIC_SEQ_CST); }

static skeep_view view_at(skeep_storage s, uint64_t element) {
  skeep_view v;
  CHECK_OK(skeep_view_of(s, 4 * element, SKEEP_F32, 1, one, &v));
  return v;
}
static skeep_status use(skeep_step *step, const skeep_view *v) { return skeep_softmax(pool, step, v, 1, v); }
static skeep_step *new_step(uint32_t roots) {
  skeep_step *step;
  NEED(skeep_step_create(0, roots, &step).code == SKEEP_OK);
  return step;
}

/* ---- inside of a step ---- */

/* A close inside the caller's own step returns, whether the step is passed or not. */
static void test_close_inside_of_a_step(void) {
  struct lent l;
  skeep_storage mark;
  uint64_t left;
  skeep_step *step = new_step(0);
  for (int handed = 0; handed < 2; handed++)
    for (int marked = 0; marked < 2; marked++)
      for (int tried = 0; tried < 2; tried++) {
        watch("close inside of a step");
        lend(&l);
        CHECK_OK(skeep_mark_open(l.storage, &mark));
        const skeep_view v = view_at(marked ? mark : l.storage, 0);
        CHECK_OK(skeep_step_begin(step));
        CHECK_OK(use(step, &v));
        if (tried && handed)
          CHECK_OK(skeep_storage_try_close(l.storage, step));
        else
          CHECK_OK(skeep_storage_close(l.storage, handed ? step : NULL));
        CHECK(released(&l) == (uint64_t)handed);
        if (!handed) CHECK_OK(skeep_storage_left(l.storage, &left));
        CHECK_FAILS_ON(use(step, &v), SKEEP_ERR_CLOSED, 0);
        CHECK_FAILS(skeep_step_end(step), SKEEP_ERR_CLOSED);
        CHECK(released(&l) == 1);
        CHECK_FAILS(skeep_storage_left(l.storage, &left), SKEEP_ERR_CLOSED);
      }
  skeep_step_destroy(step);
}

/* Two steps that close the storages of each other. */
static void test_steps_close_each_other(void) {
  struct lent a, b;
  watch("steps that close each other's storages");
  lend(&a), lend(&b);
  const skeep_view va = view_at(a.storage, 0), vb = view_at(b.storage, 0);
  skeep_step *s = new_step(0), *t = new_step(0);
  CHECK_OK(skeep_step_begin(s));
  CHECK_OK(skeep_step_begin(t));
  CHECK_OK(use(s, &va));
  CHECK_OK(use(t, &vb));
  CHECK_OK(skeep_storage_close(b.storage, s));
  CHECK_OK(skeep_storage_close(a.storage, t));
  CHECK(!released(&a) && !released(&b));
  CHECK_OK(skeep_step_end(s));
  CHECK(released(&a) && !released(&b));
  CHECK_OK(skeep_step_end(t));
  CHECK(released(&b));
  skeep_step_destroy(s);
  skeep_step_destroy(t);
}

/* A step that pins, gives back and pins again finds all it holds: many slots in few hash buckets, in every order. */
static void test_step_forgets(void) {
  enum { MAX_STORAGES = 40 };
  struct lent l[MAX_STORAGES];
  skeep_storage_info info;
  uint64_t random = 3;
  watch("a step gives back in any order");
  skeep_step *step = new_step(MAX_STORAGES);
  for (int i = 0; i < MAX_STORAGES; i++) lend(&l[i]);
  CHECK_OK(skeep_step_begin(step));
  for (int round = 0; round < 2000; round++) {
    struct lent *const x = &l[check_random(&random) % MAX_STORAGES];
    CHECK_OK(skeep_storage_info_of(x->storage, &info));
    if (info.pins) {
      CHECK_OK(skeep_storage_close(x->storage, step));
      CHECK(released(x) == 1);
      lend(x);
    } else {
      const skeep_view v = view_at(x->storage, 0);
      CHECK_OK(use(step, &v));
    }
    for (int i = 0; i < MAX_STORAGES; i++) { /* once more pins nothing more */
      CHECK_OK(skeep_storage_info_of(l[i].storage, &info));
      const skeep_view v = view_at(l[i].storage, 0);
      if (info.pins) CHECK_OK(use(step, &v));
      CHECK(info.pins <= 1);
    }
  }
  CHECK_OK(skeep_step_end(step));
  for (int i = 0; i < MAX_STORAGES; i++) {
    CHECK_OK(skeep_storage_close(l[i].storage, NULL));
    CHECK(released(&l[i]) == 1);
  }
  skeep_step_destroy(step);
}

/* A step that opens and releases marks again and again does not use more and more slots. */
static void test_marks_of_a_long_step(void) {
  struct lent l;
  skeep_counters before, after;
  skeep_storage mark;
  watch("marks of a long step");
  skeep_step *step = new_step(2);
  lend(&l);
  CHECK_OK(skeep_step_begin(step));
  skeep_counters_read(&before);
  for (int i = 0; i < 1000; i++) {
    CHECK_OK(skeep_mark_open(l.storage, &mark));
    for (int renewed = 0; renewed < 2; renewed++) {
      const skeep_view v = view_at(mark, 0);
      CHECK_OK(use(step, &v));
      CHECK_OK(skeep_mark_renew(&mark, step));
      CHECK_FAILS_ON(skeep_view_check(&v), SKEEP_ERR_CLOSED, 0);
    }
    const skeep_view v = view_at(mark, 0);
    CHECK_OK(use(step, &v));
    CHECK_OK(i % 2 ? skeep_mark_release(mark, step) : skeep_storage_reset(l.storage, step));
  }
  skeep_counters_read(&after);
  CHECK(after.slots <= before.slots + 2);
  CHECK_OK(skeep_step_end(step));
  CHECK_OK(skeep_storage_close(l.storage, NULL));
  CHECK(released(&l) == 1);
  skeep_step_destroy(step);
}

/* ---- what a release waits for ---- */

struct renewal {
  skeep_storage *mark;
  skeep_step *step;
  skeep_status status;
  uint32_t done;
};
static void *renew(void *arg) {
  struct renewal *r = arg;
  r->status = skeep_mark_renew(r->mark, r->step);
  __atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* The release of a mark does not wait for pins on the root and on outer marks, but for those on it and on inner
 * marks. */
static void test_release_waits_for_its_own(void) {
  struct lent l;
  skeep_storage outer, mark, inner, pin[2], unrelated[2];
  pthread_t thread;
  lend(&l);
  for (int through = 0; through < 2; through++) {
    watch("a renewal waits for pins through its mark and no others");
    CHECK_OK(skeep_mark_open(l.storage, &outer));
    CHECK_OK(skeep_mark_open(l.storage, &mark));
    CHECK_OK(skeep_mark_open(l.storage, &inner));
    CHECK_OK(skeep_pin(l.storage, &unrelated[0]));
    CHECK_OK(skeep_pin(outer, &unrelated[1]));
    CHECK_OK(skeep_mark_renew(&mark, NULL)); /* returns under those */
    CHECK_OK(skeep_mark_open(l.storage, &inner));
    CHECK_OK(skeep_pin(through ? inner : mark, &pin[0]));
    CHECK_OK(skeep_pin(through ? inner : mark, &pin[1]));
    const skeep_view v = view_at(through ? inner : mark, 0);
    skeep_storage renewed = mark;
    struct renewal r = {&renewed, NULL, {SKEEP_OK, 0, 0}, 0};
    NEED(pthread_create(&thread, NULL, renew, &r) == 0);
    while (skeep_view_check(&v).code == SKEEP_OK) usleep(100);
    CHECK_OK(skeep_unpin(pin[0]));
    usleep(2000);
    CHECK(!__atomic_load_n(&r.done, __ATOMIC_ACQUIRE));
    CHECK_OK(skeep_unpin(pin[1]));
    pthread_join(thread, NULL);
    CHECK_OK(r.status);
    CHECK_OK(skeep_unpin(unrelated[0]));
    CHECK_OK(skeep_unpin(unrelated[1]));
    CHECK_OK(skeep_mark_release(outer, NULL));
  }
  CHECK_OK(skeep_storage_close(l.storage, NULL));
  CHECK(released(&l) == 1);
}

/* Two steps release their own marks of one storage, one after the other and at the same time. */
static skeep_storage slab;
static uint64_t rounds;

static void *end_own_marks(void *arg) {
  uint64_t random = 7 + *(uint32_t *)arg;
  skeep_step *step = new_step(0);
  for (uint64_t i = 0; i < rounds; i++) {
    skeep_storage mark[3];
    const uint32_t marks = 1 + check_random(&random) % 3;
    CHECK_OK(skeep_step_begin(step));
    for (uint32_t m = 0; m < marks; m++) { /* others end them now and then, since marks nest */
      CHECK_OK(skeep_mark_open(slab, &mark[m]));
      skeep_view v;
      if (skeep_view_of(mark[m], 0, SKEEP_F32, 1, one, &v).code == SKEEP_OK) (void)use(step, &v);
    }
    for (uint32_t m = marks; m-- > 0;) {
      skeep_status st = skeep_mark_renew(&mark[m], step);
      skeep_view v;
      if (st.code != SKEEP_OK) CHECK_FAILS(st, SKEEP_ERR_CLOSED);
      if (skeep_view_of(mark[m], 0, SKEEP_F32, 1, one, &v).code == SKEEP_OK) (void)use(step, &v);
      st = i % 7 ? skeep_mark_release(mark[m], step) : skeep_storage_reset(slab, step);
      if (st.code != SKEEP_OK) CHECK_FAILS(st, SKEEP_ERR_CLOSED);
    }
    (void)skeep_step_end(step);
  }
  skeep_step_destroy(step);
  return NULL;
}

static void test_steps_end_their_own_marks(void) {
  enum { THREADS = 3 };
  skeep_storage a, b;
  pthread_t thread[THREADS];
  uint32_t number[THREADS];
  watch("steps that end their own marks of one slab");
  NEED(skeep_storage_allocate(64, 0, &slab).code == SKEEP_OK);
  skeep_step *s = new_step(0), *t = new_step(0);
  CHECK_OK(skeep_mark_open(slab, &a));
  CHECK_OK(skeep_mark_open(slab, &b));
  const skeep_view va = view_at(a, 0), vb = view_at(b, 1);
  CHECK_OK(skeep_step_begin(s));
  CHECK_OK(skeep_step_begin(t));
  CHECK_OK(use(s, &va));
  CHECK_OK(use(t, &vb));
  CHECK_OK(skeep_mark_renew(&b, t));
  CHECK_OK(skeep_mark_renew(&a, s));
  CHECK_FAILS(skeep_mark_renew(&b, t), SKEEP_ERR_CLOSED); /* it lay inside of a */
  CHECK_OK(skeep_step_end(s));
  CHECK_OK(skeep_step_end(t));
  skeep_step_destroy(s);
  skeep_step_destroy(t);
  for (uint32_t i = 0; i < THREADS; i++) {
    number[i] = i;
    NEED(pthread_create(&thread[i], NULL, end_own_marks, &number[i]) == 0);
  }
  for (uint32_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  CHECK_OK(skeep_storage_close(slab, NULL));
}

/* ---- any order, one thread, against a model of the rule ---- */

enum { LIVES = 6, MARKS = 4, PINS = 12, STEPS = 2, HELD = 64 };

static struct life {
  struct lent lent;
  int open, used;
  uint32_t marks;
  struct {
    skeep_storage handle;
    uint64_t serial; /* of the mark; 0 is the root */
  } mark[MARKS];
} life[LIVES];
static struct host_pin {
  skeep_storage handle;
  struct life *life; /* NULL: none */
  uint64_t serial;
} host_pin[PINS];
static struct model_step {
  skeep_step *step;
  int running;
  uint32_t held;
  struct {
    const struct life *life;
    uint64_t serial;
  } hold[HELD];
} steps[STEPS];
static uint64_t last_serial;

static int step_holds(const struct model_step *s, const struct life *l, uint64_t serial) {
  for (uint32_t i = 0; i < s->held; i++)
    if (s->hold[i].life == l && s->hold[i].serial == serial) return 1;
  return 0;
}
/* Pins on a mark of l, or on its root. A pin through a mark counts on the root, too. */
static uint64_t pins_on(const struct life *l, uint64_t serial, const struct model_step *but) {
  uint64_t n = 0;
  for (int i = 0; i < PINS; i++) n += host_pin[i].life == l && (!serial || host_pin[i].serial == serial);
  for (int i = 0; i < STEPS; i++) n += &steps[i] != but && step_holds(&steps[i], l, serial);
  return n;
}
static void step_takes(struct model_step *s, const struct life *l, uint64_t serial) {
  if (step_holds(s, l, serial)) return;
  NEED(s->held < HELD);
  s->hold[s->held].life = l;
  s->hold[s->held++].serial = serial;
}
/* A step that is passed gives back its pins on all marks, and on a root that closes. */
static void step_gives(struct model_step *s, const struct life *closed) {
  uint32_t kept = 0;
  for (uint32_t i = 0; s && i < s->held; i++)
    if (!s->hold[i].serial && s->hold[i].life != closed) s->hold[kept++] = s->hold[i];
  if (s) s->held = kept;
}

static void check_model(void) {
  skeep_storage_info info;
  uint64_t left;
  for (struct life *l = life; l < life + LIVES; l++) {
    if (!l->used) continue;
    const uint64_t pins = pins_on(l, 0, NULL);
    if (l->open) {
      CHECK(released(&l->lent) == 0);
      CHECK_OK(skeep_storage_info_of(l->lent.storage, &info));
      CHECK(info.pins == pins);
      for (uint32_t m = 0; m < l->marks; m++) {
        CHECK_OK(skeep_storage_info_of(l->mark[m].handle, &info));
        CHECK(info.is_mark && info.pins == pins_on(l, l->mark[m].serial, NULL));
      }
    } else if (pins) {
      CHECK(released(&l->lent) == 0);
      CHECK_OK(skeep_storage_left(l->lent.storage, &left));
      CHECK(left == pins);
    } else {
      CHECK(released(&l->lent) == 1);
      CHECK_FAILS(skeep_storage_left(l->lent.storage, &left), SKEEP_ERR_CLOSED);
      l->used = 0;
    }
  }
}

static void close_some(struct life *l, struct model_step *s, uint32_t tried) {
  skeep_storage old[MARKS];
  const uint32_t marks = l->marks;
  for (uint32_t m = 0; m < marks; m++) old[m] = l->mark[m].handle;
  if (tried && pins_on(l, 0, s)) {
    const skeep_status st = skeep_storage_try_close(l->lent.storage, s ? s->step : NULL);
    CHECK_FAILS(st, SKEEP_ERR_BUSY);
    CHECK(st.detail == pins_on(l, 0, s));
    return;
  }
  CHECK_OK((tried ? skeep_storage_try_close : skeep_storage_close)(l->lent.storage, s ? s->step : NULL));
  l->open = 0;
  step_gives(s, l);
  CHECK_FAILS(skeep_storage_close(l->lent.storage, NULL), SKEEP_ERR_CLOSED);
  for (uint32_t m = 0; m < marks; m++) CHECK_FAILS(skeep_mark_release(old[m], NULL), SKEEP_ERR_CLOSED);
}

/* Releases the marks from `first` on; renews the one before, if there is one and it is wanted. Does nothing when that
 * would wait, since there is only one thread. */
static void end_marks(struct life *l, uint32_t first, int renewed, struct model_step *s) {
  skeep_step *const step = s ? s->step : NULL;
  for (uint32_t m = first - (uint32_t)renewed; m < l->marks; m++)
    if (pins_on(l, l->mark[m].serial, s)) return;
  if (renewed)
    CHECK_OK(skeep_mark_renew(&l->mark[first - 1].handle, step));
  else if (first == 0)
    CHECK_OK(skeep_storage_reset(l->lent.storage, step));
  else if (first < l->marks)
    CHECK_OK(skeep_mark_release(l->mark[first].handle, step));
  else
    return;
  l->marks = first;
  step_gives(s, NULL);
}

static void one_action(uint64_t *random) {
  struct life *l = &life[check_random(random) % LIVES];
  struct model_step *s = &steps[check_random(random) % STEPS];
  struct host_pin *p = &host_pin[check_random(random) % PINS];
  const uint32_t choice = check_random(random) % 12, r = check_random(random);
  if (choice == 0) { /* steps begin and end */
    CHECK_OK(s->running ? skeep_step_end(s->step) : skeep_step_begin(s->step));
    s->running = !s->running;
    s->held = 0;
    return;
  }
  if (choice == 1) { /* pins end, also those of closed storages */
    if (!p->life) return;
    const skeep_storage handle = p->handle;
    p->life = NULL; /* before: it may be what frees */
    CHECK_OK(skeep_unpin(handle));
    CHECK_FAILS(skeep_unpin(handle), SKEEP_ERR_CLOSED);
    return;
  }
  if (!l->open) {
    if (l->used) return; /* pins keep it */
    lend(&l->lent);
    l->open = l->used = 1;
    l->marks = 0;
    return;
  }
  const uint32_t at = r % (l->marks + 1); /* 0: the root, else one of its marks */
  const skeep_storage handle = at ? l->mark[at - 1].handle : l->lent.storage;
  const uint64_t serial = at ? l->mark[at - 1].serial : 0;
  struct model_step *const handed = s->running ? s : NULL;
  skeep_view v;
  switch (choice) {
  case 2: case 3: case 4: /* used, within a step or not */
    CHECK_OK(skeep_view_of(handle, 4 * (r % 16), SKEEP_F32, 1, one, &v));
    CHECK_OK(use(handed ? handed->step : NULL, &v));
    if (!handed) return;
    step_takes(handed, l, serial);
    step_takes(handed, l, 0);
    return;
  case 5: /* pinned */
    if (p->life) return;
    CHECK_OK(skeep_pin(handle, &p->handle));
    p->life = l;
    p->serial = serial;
    return;
  case 6: case 7: /* marked */
    if (l->marks == MARKS) return;
    CHECK_OK(skeep_mark_open(l->lent.storage, &l->mark[l->marks].handle));
    l->mark[l->marks++].serial = ++last_serial;
    return;
  case 8: end_marks(l, at, 0, handed); return;
  case 9: end_marks(l, at, at > 0, handed); return;
  case 10: close_some(l, r & 1024 ? handed : NULL, 0); return;
  case 11: close_some(l, r & 1024 ? handed : NULL, 1); return;
  }
}

static void test_any_order(void) {
  uint64_t random = 2026, releases = 0;
  watch("any order of one thread");
  for (int i = 0; i < STEPS; i++) steps[i].step = new_step(HELD);
  for (uint64_t i = 0; i < 20 * rounds; i++) {
    one_action(&random);
    check_model();
  }
  for (int i = 0; i < STEPS; i++) {
    skeep_step_destroy(steps[i].step); /* ends it */
    steps[i].held = 0;
  }
  check_model();
  for (struct life *l = life; l < life + LIVES; l++)
    if (l->open) close_some(l, NULL, 0);
  for (int i = 0; i < PINS; i++) {
    if (!host_pin[i].life) continue;
    host_pin[i].life = NULL;
    CHECK_OK(skeep_unpin(host_pin[i].handle));
  }
  for (struct life *l = life; l < life + LIVES; l++) releases += released(&l->lent);
  CHECK(releases == LIVES);
}

/* ---- any order, many threads ---- */

enum { PLACES = 3, LENT = 60000 };
static struct lent *all_lent;
static uint64_t lent_next, closed_once, used_ok, used_closed;
static struct lent *board[PLACES];

static struct lent *lend_next(void) {
  const uint64_t i = __atomic_fetch_add(&lent_next, 1, __ATOMIC_SEQ_CST);
  if (i >= LENT) return NULL;
  lend(&all_lent[i]);
  return &all_lent[i];
}

/* Random calls on a storage that other threads close. The only errors are ERR_CLOSED and, of try_close, ERR_BUSY. */
static void meddle(uint64_t *random, skeep_step *step) {
  const uint32_t r = check_random(random), place = r / 16 % PLACES;
  struct lent *const l = __atomic_load_n(&board[place], __ATOMIC_SEQ_CST);
  skeep_storage pin, mark;
  skeep_status st;
  skeep_view v;
  const int marked = r / 64 % 2 && skeep_mark_open(l->storage, &mark).code == SKEEP_OK;
  const skeep_storage s = marked ? mark : l->storage;
  const int in_step = r / 128 % 2;
  switch (r % 5) {
  case 0:
    st = skeep_pin(s, &pin);
    if (st.code == SKEEP_OK) {
      __atomic_add_fetch(&l->users, 1, __ATOMIC_SEQ_CST);
      if (r / 256 % 4 == 0) sched_yield();
      CHECK(released(l) == 0);
      __atomic_sub_fetch(&l->users, 1, __ATOMIC_SEQ_CST);
      CHECK_OK(skeep_unpin(pin));
    }
    break;
  case 1: case 2:
    st = skeep_view_of(s, 4 * (r / 4096 % 16), SKEEP_F32, 1, one, &v);
    if (st.code == SKEEP_OK) st = use(in_step ? step : NULL, &v);
    break;
  case 3:
    st = skeep_storage_try_close(l->storage, in_step ? step : NULL);
    if (st.code == SKEEP_ERR_BUSY) st.code = SKEEP_ERR_CLOSED;
    break;
  default:
    st = skeep_storage_close(l->storage, in_step ? step : NULL);
    if (st.code == SKEEP_OK && r / 512 % 2) {
      CHECK_FAILS(skeep_storage_close(l->storage, step), SKEEP_ERR_CLOSED);
    }
  }
  __atomic_add_fetch(st.code == SKEEP_OK ? &used_ok : &used_closed, 1, __ATOMIC_RELAXED);
  if (st.code != SKEEP_OK) CHECK_FAILS(st, SKEEP_ERR_CLOSED);
  if (st.code == SKEEP_OK && r % 5 >= 3) { /* only one gets here for each storage */
    struct lent *const next = lend_next();
    __atomic_add_fetch(&closed_once, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&board[place], next ? next : &all_lent[0], __ATOMIC_SEQ_CST); /* the first is closed long since */
  }
  if (!marked) return;
  st = r / 1024 % 2 ? skeep_mark_renew(&mark, step) : r / 2048 % 4 ? skeep_mark_release(mark, step) : skeep_storage_reset(l->storage, step);
  if (st.code != SKEEP_OK) CHECK_FAILS(st, SKEEP_ERR_CLOSED);
}

static void *meddle_on(void *arg) {
  uint64_t random = 31 + *(uint32_t *)arg;
  skeep_step *step = new_step(0);
  for (uint64_t i = 0; i < rounds && __atomic_load_n(&lent_next, __ATOMIC_SEQ_CST) < LENT; i++) {
    CHECK_OK(skeep_step_begin(step));
    for (uint32_t n = check_random(&random) % 6; n; n--) meddle(&random, step);
    (void)skeep_step_end(step); /* what it was refused */
  }
  skeep_step_destroy(step);
  return NULL;
}

static void test_many_threads(void) {
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  uint32_t number[THREADS];
  watch("any order of many threads");
  all_lent = calloc(LENT, sizeof *all_lent);
  NEED(all_lent);
  for (int i = 0; i < PLACES; i++) board[i] = lend_next();
  for (uint32_t i = 0; i < THREADS; i++) {
    number[i] = i;
    NEED(pthread_create(&thread[i], NULL, meddle_on, &number[i]) == 0);
  }
  for (uint32_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < PLACES; i++) {
    const skeep_status st = skeep_storage_close(board[i]->storage, NULL);
    if (st.code == SKEEP_OK) closed_once++;
  }
  const uint64_t lent = lent_next < LENT ? lent_next : LENT;
  for (uint64_t i = 0; i < lent; i++) CHECK(all_lent[i].released == 1);
  CHECK(closed_once == lent && used_ok > 0 && used_closed > 0);
  printf("%" PRIu64 " storages, each given back once; %" PRIu64 " uses, %" PRIu64 " refused\n", lent, used_ok, used_closed);
  free(all_lent);
}

/* ---- fork ---- */

static uint32_t stop;

static void *hammer(void *arg) {
  static float memory[4];
  (void)arg;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    skeep_storage s, mark, pin;
    NEED(skeep_storage_borrow(memory, sizeof memory, SKEEP_DOMAIN_HEAP, 0, NULL, NULL, &s).code == SKEEP_OK);
    CHECK_OK(skeep_mark_open(s, &mark));
    CHECK_OK(skeep_pin(mark, &pin));
    CHECK_OK(skeep_unpin(pin));
    CHECK_OK(skeep_mark_release(mark, NULL));
    CHECK_OK(skeep_storage_close(s, NULL));
  }
  return NULL;
}

/* All that the header allows in a forked child. A child that hangs is ended by the alarm. */
static int child(skeep_storage inherited, const skeep_view *view) {
  skeep_storage s, mark = {0, 0}, pin;
  skeep_counters counters;
  skeep_view v;
  double value = 0;
  signal(SIGALRM, SIG_DFL);
  alarm(60);
  skeep_counters_read(&counters);
  int good = skeep_get(view, (const int64_t[]){0}, &value).code == SKEEP_OK && value == 42;
  good &= skeep_pin(inherited, &pin).code == SKEEP_OK && skeep_unpin(pin).code == SKEEP_OK;
  good &= skeep_storage_allocate(64, 0, &s).code == SKEEP_OK && skeep_mark_open(s, &mark).code == SKEEP_OK;
  good &= skeep_view_of(mark, 0, SKEEP_F32, 1, one, &v).code == SKEEP_OK;
  good &= skeep_get(&v, (const int64_t[]){0}, &value).code == SKEEP_OK && value == 0;
  good &= skeep_mark_renew(&mark, NULL).code == SKEEP_OK && skeep_mark_release(mark, NULL).code == SKEEP_OK;
  good &= skeep_storage_close(s, NULL).code == SKEEP_OK && skeep_storage_close(inherited, NULL).code == SKEEP_OK;
  return good ? 0 : 1;
}

static void test_fork(void) {
  pthread_t thread[2];
  skeep_storage s;
  watch("fork");
  const skeep_view v = check_new(SKEEP_F32, 1, one, &s);
  check_floats(&v)[0] = 42;
  fflush(NULL);
  for (int i = 0; i < 2; i++) NEED(pthread_create(&thread[i], NULL, hammer, NULL) == 0);
  for (uint64_t i = 0; i < 20 + rounds / 20; i++) {
    int status = -1;
    const pid_t pid = fork();
    NEED(pid >= 0);
    if (!pid) _exit(child(s, &v));
    NEED(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!WIFEXITED(status)) {
      fprintf(stderr, "the child of fork %" PRIu64 " ended by signal %d\n", i, WTERMSIG(status));
      break;
    }
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  CHECK_OK(skeep_storage_close(s, NULL));
}

/* When another thread releases a mark while its renewal waits, the renewal returns ERR_CLOSED. */
struct overtaken {
  skeep_storage mark;
  skeep_status status;
};
static void *renew_it(void *arg) {
  struct overtaken *o = arg;
  o->status = skeep_mark_renew(&o->mark, NULL);
  return NULL;
}
static void test_renewal_is_overtaken(void) {
  struct lent l;
  struct overtaken o;
  skeep_storage pin, old;
  skeep_storage_info info;
  pthread_t thread;
  skeep_view v;
  watch("a renewal that is overtaken");
  lend(&l);
  CHECK_OK(skeep_mark_open(l.storage, &o.mark));
  old = o.mark;
  CHECK_OK(skeep_pin(old, &pin));
  NEED(pthread_create(&thread, NULL, renew_it, &o) == 0);
  while (skeep_storage_info_of(old, &info).code == SKEEP_OK) sched_yield(); /* from here on it waits for the pin */
  CHECK_OK(skeep_storage_close(l.storage, NULL));
  CHECK_OK(skeep_unpin(pin));
  pthread_join(thread, NULL);
  CHECK_FAILS(o.status, SKEEP_ERR_CLOSED);
  CHECK_FAILS(skeep_view_of(o.mark, 0, SKEEP_F32, 1, one, &v), SKEEP_ERR_CLOSED);
  CHECK(released(&l) == 1);
}

int main(int argc, char **argv) {
  skeep_counters before, after;
  rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
  skeep_counters_read(&before);
  NEED(skeep_pool_create(1, 0, &pool).code == SKEEP_OK);
  test_close_inside_of_a_step();
  test_steps_close_each_other();
  test_step_forgets();
  test_marks_of_a_long_step();
  test_release_waits_for_its_own();
  test_steps_end_their_own_marks();
  test_renewal_is_overtaken();
  test_any_order();
  test_many_threads();
  test_fork();
  watch(NULL);
  skeep_pool_destroy(pool);
  skeep_counters_read(&after);
  CHECK(after.storages == before.storages && after.heap_bytes == before.heap_bytes &&
        after.offheap_bytes == before.offheap_bytes);
  return check_result();
}
