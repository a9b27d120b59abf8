/* The fault guard together with signal handlers and masks of a host: it goes on top again when it is installed again,
 * passes signals that are not its own on without endless loops, and works in threads that block SIGBUS. */
#include "check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS 512
#define N 128
#define BYTES (sizeof(float) * ROWS * N)

static const char *gone; /* a page that its file no longer has */
static uint32_t *calls;  /* of handlers of the host; shared with children */
static int file;
static skeep_storage lent;
static skeep_view w, x, y;
static skeep_pool *pool;
static skeep_step *step;

static void make(void) {
  static const int64_t x_shape[] = {2, N}, w_shape[] = {ROWS, N}, y_shape[] = {2, ROWS};
  static skeep_storage sx, sy;
  file = check_file(NULL, BYTES);
  gone = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
  calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  NEED(gone != MAP_FAILED && calls != MAP_FAILED);
  /* A mapping of the host itself: borrowed memory is guarded as well. */
  NEED(skeep_storage_borrow((void *)(uintptr_t)gone, BYTES, SKEEP_DOMAIN_OFFHEAP, 1, NULL, NULL, &lent).code == SKEEP_OK);
  NEED(skeep_view_of(lent, 0, SKEEP_F32, 2, w_shape, &w).code == SKEEP_OK);
  x = check_new(SKEEP_F32, 2, x_shape, &sx);
  y = check_new(SKEEP_F32, 2, y_shape, &sy);
  NEED(skeep_step_create(0, 0, &step).code == SKEEP_OK && ftruncate(file, 0) == 0);
}

/* After the last child: a forked process has no workers. */
static void make_pool(void) { NEED(skeep_pool_create(3, 0, &pool).code == SKEEP_OK); }

/* Reads the page outside of skeep: the host's own fault. */
static void fault(void) { (void)*(const volatile char *)gone; }

/* ---- handlers of a host ---- */

static uint32_t count(int handler) { return __atomic_add_fetch(&calls[handler], 1, __ATOMIC_RELAXED); }

static sigjmp_buf own;
static void jumping(int signal) {
  (void)signal;
  count(0);
  siglongjmp(own, 1);
}
static int jumps(void) {
  if (sigsetjmp(own, 1)) return 1;
  fault();
  return 0;
}

static struct sigaction before_a, before_b;
static void pass(const struct sigaction *to, int signal, siginfo_t *info, void *context) {
  if (to->sa_flags & SA_SIGINFO) {
    to->sa_sigaction(signal, info, context);
  } else if (to->sa_handler == SIG_DFL) {
    sigaction(SIGBUS, to, NULL);
  } else {
    to->sa_handler(signal);
  }
}
static void passing_a(int signal, siginfo_t *info, void *context) {
  if (count(1) > 100) _exit(3); /* round in circles */
  pass(&before_a, signal, info, context);
}
static void passing_b(int signal, siginfo_t *info, void *context) {
  if (count(2) > 100) _exit(3);
  pass(&before_b, signal, info, context);
}
static void take(void (*handler)(int, siginfo_t *, void *), struct sigaction *before) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  action.sa_sigaction = handler;
  NEED(sigaction(SIGBUS, &action, before) == 0);
}
static void take_jumping(void) { NEED(sigaction(SIGBUS, &(struct sigaction){.sa_handler = jumping}, NULL) == 0); }

/* Runs f in a child process. Returns the signal that ended it, or minus its exit status. */
static int ends_by(void (*body)(void)) {
  int status = 0;
  calls[0] = calls[1] = calls[2] = 0;
  fflush(NULL);
  const pid_t child = fork();
  NEED(child >= 0);
  if (!child) {
    alarm(60);
    checks_failed = 0;
    NEED(sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL) == 0);
    body();
    _exit(checks_failed ? 9 : 0);
  }
  NEED(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void install(void) { NEED(skeep_fault_guard_install().code == SKEEP_OK); }

/* A fault of an operation is an error; then a fault of the host ends the process. */
static void guarded_and_fault(void) {
  double value;
  CHECK_FAILS(skeep_get(&w, (const int64_t[]){1, 1}, &value), SKEEP_ERR_FAULT);
  if (checks_failed) _exit(4);
  fault();
  _exit(5);
}
static void alone(void) {
  install();
  guarded_and_fault();
}
static void one_above(void) {
  install();
  take(passing_a, &before_a);
  install();
  guarded_and_fault();
}
static void two_above(void) {
  install();
  take(passing_a, &before_a);
  install();
  take(passing_b, &before_b);
  install();
  guarded_and_fault();
}
/* A handler below the guard is installed again above it, so that its predecessor is now the guard. */
static void below_and_above(void) {
  take(passing_a, &before_a);
  install();
  take(passing_a, &before_a);
  install();
  guarded_and_fault();
}
static void again_and_again(void) {
  install();
  for (int i = 0; i < 100; i++) {
    take(passing_a, &before_a);
    install();
  }
  guarded_and_fault();
}
static void test_chains(void) {
  CHECK(ends_by(alone) == SIGBUS);
  CHECK(ends_by(one_above) == SIGBUS && calls[1] == 1);
  CHECK(ends_by(two_above) == SIGBUS && calls[1] == 1 && calls[2] == 1);
  CHECK(ends_by(below_and_above) == SIGBUS && calls[1] >= 1);
  CHECK(ends_by(again_and_again) == SIGBUS && calls[1] >= 1);
}

/* A host installs a handler for a while and then restores the one it found. It must not be called afterwards, even when
 * the guard was installed above it meanwhile. */
static void for_a_while(void) {
  install();
  for (int i = 0; i < 40; i++) {
    take(passing_a, &before_a);
    install();
    NEED(sigaction(SIGBUS, &before_a, NULL) == 0);
  }
  guarded_and_fault();
}

/* ---- handlers above the guard ---- */

static int same_mask(const sigset_t *a) {
  sigset_t now;
  NEED(!pthread_sigmask(SIG_SETMASK, NULL, &now));
  for (int i = 1; i < NSIG; i++)
    if (sigismember(a, i) != sigismember(&now, i)) return 0;
  return 1;
}

/* A handler of the host that passes faults on may block signals. The thread gets its own mask back: each of many faults
 * is an error, on the caller and on workers, and no signal stays blocked or becomes unblocked. */
static void passed_on_from_above(void) {
  static const int flags[] = {0, SA_ONSTACK, SA_NODEFER, SA_NODEFER | SA_ONSTACK};
  sigset_t before;
  double value;
  make_pool();
  install();
  NEED(sigaction(SIGBUS, NULL, &before_b) == 0);
  sigemptyset(&before);
  sigaddset(&before, SIGUSR2);
  for (int f = 0; f < 8; f++) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | flags[f / 2]};
    action.sa_sigaction = passing_b;
    if (f & 1) sigfillset(&action.sa_mask);
    NEED(sigaction(SIGBUS, &action, NULL) == 0);
    for (int blocked = 0; blocked < 2; blocked++) {
      if (blocked)
        sigaddset(&before, SIGBUS);
      else
        sigdelset(&before, SIGBUS);
      NEED(!pthread_sigmask(SIG_SETMASK, &before, NULL));
      for (int i = 0; i < 5; i++) {
        calls[2] = 0;
        CHECK_FAILS_ON(skeep_matmul_t(pool, NULL, &x, &w, &y), SKEEP_ERR_FAULT, 1);
        CHECK(calls[2] >= 1 && same_mask(&before));
        CHECK_FAILS_ON(skeep_get(&w, (const int64_t[]){1, 1}, &value), SKEEP_ERR_FAULT, 0);
        CHECK(same_mask(&before));
      }
    }
  }
}

/* A handler below the guard that jumps out does not affect later faults: they are passed through all handlers again,
 * whichever are above by then and however deep the stack is. */
static void deep(int frames) {
  volatile char room[128];
  room[0] = (char)frames;
  if (frames)
    deep(frames - 1);
  else
    fault();
  room[1] = room[0];
}
static int jumps_deep(int frames) {
  if (sigsetjmp(own, 1)) return 1;
  deep(frames);
  return 0;
}
static void jumped_from_below(void) {
  static const int depths[] = {0, 3, 1, 2, 0}; /* begins where the round before ended */
  take_jumping();
  for (uint32_t above = 0; above < 3; above++) {
    if (above == 1) take(passing_b, &before_b);
    if (above == 2) take(passing_a, &before_a);
    for (int round = 0; round < 4; round++) {
      if (round == 2 || !above) install();
      for (int i = 0; i < 5; i++) {
        calls[0] = calls[1] = calls[2] = 0;
        CHECK(jumps_deep(depths[i]) && calls[0] == 1 && calls[1] == above / 2 && calls[2] == (above + 1) / 2);
      }
    }
  }
}
static void test_above(void) {
  CHECK(ends_by(for_a_while) == SIGBUS && calls[1] == 0);
  CHECK(ends_by(passed_on_from_above) == 0);
  CHECK(ends_by(jumped_from_below) == 0);
}

static sigjmp_buf *out;
static void last(int signal) {
  (void)signal;
  count(0);
  siglongjmp(*out, 1);
}

/* In this process: the host jumps out of its handler every time. */
static void test_on_top_again(void) {
  struct sigaction ours, now;
  take_jumping();
  CHECK_OK(skeep_fault_guard_install());
  NEED(sigaction(SIGBUS, NULL, &ours) == 0);
  CHECK(ours.sa_handler != jumping);
  for (int i = 0; i < 20; i++) {
    calls[0] = 0;
    take_jumping(); /* takes the signal over */
    CHECK_OK(skeep_fault_guard_install());
    CHECK_OK(skeep_fault_guard_install()); /* changes nothing */
    NEED(sigaction(SIGBUS, NULL, &now) == 0);
    CHECK(now.sa_handler == ours.sa_handler);
    CHECK_FAILS_ON(skeep_matmul_t(pool, NULL, &x, &w, &y), SKEEP_ERR_FAULT, 1);
    CHECK(calls[0] == 0 && jumps() && calls[0] == 1);
  }
  /* After a jump over another handler, each new fault begins at the newest one. */
  sigjmp_buf here;
  out = &here;
  take(passing_a, &before_a); /* passes on to us, and we to the jumping one */
  CHECK_OK(skeep_fault_guard_install());
  NEED(sigaction(SIGBUS, &(struct sigaction){.sa_handler = last}, NULL) == 0);
  CHECK_OK(skeep_fault_guard_install());
  for (volatile int i = 0; i < 5; i++) {
    calls[0] = calls[1] = 0;
    if (!sigsetjmp(here, 1)) fault();
    CHECK(calls[0] == 1 && calls[1] == 0);
  }
  take(passing_b, &before_b);
  CHECK_OK(skeep_fault_guard_install());
  for (volatile int i = 0; i < 5; i++) {
    calls[0] = calls[2] = 0;
    if (!sigsetjmp(here, 1)) fault();
    CHECK(calls[0] == 1 && calls[2] == 1);
  }
  /* Sent ones are the host's, too. */
  calls[0] = calls[2] = 0;
  if (!sigsetjmp(here, 1)) raise(SIGBUS);
  CHECK(calls[0] == 1 && calls[2] == 1);
}

static void limit(void) {
  int failed = 0;
  for (int i = 0; i < 40; i++) {
    take(passing_a, &before_a);
    failed += skeep_fault_guard_install().code == SKEEP_ERR_MEMORY;
    take(passing_b, &before_b);
    const skeep_status st = skeep_fault_guard_install();
    if (st.code != SKEEP_OK && st.code != SKEEP_ERR_MEMORY) _exit(6);
    failed += st.code == SKEEP_ERR_MEMORY;
  }
  _exit(failed ? 7 : 8); /* refused after too many changes, and no byte is overwritten */
}

/* ---- threads that block SIGBUS ---- */

static void *blocked(void *arg) {
  sigset_t set, now;
  double value;
  (void)arg;
  sigfillset(&set);
  NEED(!pthread_sigmask(SIG_SETMASK, &set, NULL));
  for (int i = 0; i < 5; i++) {
    CHECK_FAILS_ON(skeep_matmul_t(pool, NULL, &x, &w, &y), SKEEP_ERR_FAULT, 1);
    CHECK_FAILS_ON(skeep_convert(pool, NULL, &w, &w), SKEEP_ERR_READONLY, 1); /* a refused one */
    CHECK_FAILS_ON(skeep_get(&w, (const int64_t[]){1, 1}, &value), SKEEP_ERR_FAULT, 0);
    CHECK_FAILS_ON(skeep_reference_matmul_t(&x, &w, &y, NULL), SKEEP_ERR_FAULT, 1);
    CHECK_OK(skeep_step_begin(step));
    CHECK_OK(skeep_softcap(pool, step, &x, 1, &x));
    CHECK_FAILS_ON(skeep_matmul_t(pool, step, &x, &w, &y), SKEEP_ERR_FAULT, 1);
    CHECK_FAILS(skeep_step_end(step), SKEEP_ERR_FAULT);
    NEED(!pthread_sigmask(SIG_SETMASK, NULL, &now));
    CHECK(sigismember(&now, SIGBUS) && sigismember(&now, SIGUSR1)); /* as before */
  }
  /* Open in one step, blocked in the next. */
  for (int i = 0; i < 4; i++) {
    if (i & 1)
      sigaddset(&set, SIGBUS);
    else
      sigdelset(&set, SIGBUS);
    NEED(!pthread_sigmask(SIG_SETMASK, &set, NULL));
    CHECK_OK(skeep_step_begin(step));
    CHECK_FAILS(skeep_matmul_t(pool, step, &x, &w, &y), SKEEP_ERR_FAULT);
    CHECK_FAILS(skeep_step_end(step), SKEEP_ERR_FAULT);
  }
  return NULL;
}

int main(void) {
  pthread_t thread;
  make();
  test_chains();
  test_above();
  CHECK(ends_by(limit) == -7);
  make_pool();
  test_on_top_again();
  NEED(!pthread_create(&thread, NULL, blocked, NULL) && !pthread_join(thread, NULL));
  skeep_step_destroy(step);
  skeep_pool_destroy(pool);
  CHECK_OK(skeep_storage_close(lent, NULL));
  return check_result();
}
