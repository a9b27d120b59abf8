/* Turns faults of mapped pages into errors: a SIGBUS inside skeep_guarded jumps out of it instead of ending the
 * process. */
#include "internal.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#define LOCAL static __thread __attribute__((tls_model("initial-exec"))) /* the handler must not allocate thread-local storage */

/* Where to jump after a fault in this thread's innermost guarded call; NULL outside of any. Volatile, because the
 * compiler sees no reader between the store and the call. */
LOCAL sigjmp_buf *volatile target;
LOCAL volatile uint64_t fault_address;

/* The guard may be installed several times, each time on top of a newer handler of the host. Each of these levels has
 * its own handler function, so that it knows which handler it replaced, no matter who calls it. previous[level] is
 * written before the level is installed, and never again. */
#define EACH_LEVEL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define ONE(n) +1
enum { LEVELS = EACH_LEVEL(ONE) };
static struct sigaction previous[LEVELS];
static uint32_t levels; /* in use */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The handler to which a level passes a signal. A handler of the host that was installed again above the guard is both
 * its predecessor and its successor, so that the two would call each other forever. To end that, a signal that comes
 * back is passed to a handler older than all that have seen it. Which one saw it last is noted in uc_link of the
 * signal's context: the kernel makes a new context, without a link, for each signal, so the note vanishes with it
 * however the handler is left. */
static const struct sigaction *next_of(uint32_t level, const ucontext_t *context) {
  static const struct sigaction none = {.sa_handler = SIG_DFL};
  const uint64_t offset = (uint64_t)(uintptr_t)context->uc_link - (uint64_t)(uintptr_t)previous;
  if (offset >= sizeof previous) return &previous[level];
  const uint32_t served = (uint32_t)(offset / sizeof *previous);
  if (!served) return &none;
  return &previous[level < served ? level : served - 1];
}

static void call(const struct sigaction *to, int signal, siginfo_t *info, ucontext_t *context) {
  /* The guard's own mask is empty; that handler expects its mask in force. The kernel restores the mask at return. */
  pthread_sigmask(SIG_BLOCK, &to->sa_mask, NULL);
  if (to->sa_flags & SA_SIGINFO)
    to->sa_sigaction(signal, info, context);
  else
    to->sa_handler(signal);
}

/* Passes a SIGBUS that is not from a guarded call on to the previous handler. */
static void chain(uint32_t level, int signal, siginfo_t *info, ucontext_t *context) {
  const struct sigaction *to = next_of(level, context);
  if (to->sa_flags & SA_SIGINFO || (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)) {
    void *const link = context->uc_link;
    context->uc_link = (void *)(uintptr_t)to;
    call(to, signal, info, context);
    context->uc_link = link;
    return;
  }
  if (info->si_code <= 0 && to->sa_handler == SIG_IGN) return; /* sent by a process, and ignored before */
  /* A fault cannot be ignored. With the default action restored, the instruction faults again and ends the process; a
   * signal that was sent must be sent again for that. */
  sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
  if (info->si_code <= 0) raise(SIGBUS);
}

/* Restores the thread's signal mask at the fault: a handler of the host above the guard may have blocked more. In the
 * context, the kernel wrote only NSIG bits of the set. */
static void restore_mask(const ucontext_t *context) {
  sigset_t mask;
  sigemptyset(&mask);
  memcpy(&mask, &context->uc_sigmask, NSIG / 8);
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void serve(uint32_t level, int signal, siginfo_t *info, ucontext_t *context) {
  sigjmp_buf *to = target;
  if (to && info->si_code > 0) { /* from the kernel, for an instruction of this thread */
    fault_address = (uint64_t)(uintptr_t)info->si_addr;
    restore_mask(context);
    siglongjmp(*to, 1);
  }
  SKEEP_KEEP_ERRNO;
  chain(level, signal, info, context);
}

#define HANDLER(n) \
  static void handler_##n(int signal, siginfo_t *info, void *context) { serve(n, signal, info, context); }
#define NAME(n) handler_##n,
EACH_LEVEL(HANDLER)
static void (*const handlers[LEVELS])(int, siginfo_t *, void *) = {EACH_LEVEL(NAME)};

static int is_ours(const struct sigaction *a) {
  for (uint32_t i = 0; i < levels; i++)
    if (a->sa_flags & SA_SIGINFO && a->sa_sigaction == handlers[i]) return 1;
  return 0;
}

static int same(const struct sigaction *a, const struct sigaction *b) {
  if ((a->sa_flags ^ b->sa_flags) & SA_SIGINFO) return 0;
  return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler;
}

/* Lock held. */
static skeep_status install(void) {
  struct sigaction now, action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  /* NODEFER and an empty mask: the next handler decides what is blocked. ONSTACK: threads of Go have small stacks and
   * an alternate one. */
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, NULL, &now)) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  if (is_ours(&now)) return skeep_ok();
  if (!levels || !same(&now, &previous[levels - 1])) {
    if (levels == LEVELS) return skeep_fail(SKEEP_ERR_MEMORY, -1, sizeof previous);
    previous[levels] = now;
    __atomic_store_n(&levels, levels + 1, __ATOMIC_RELAXED);
  }
  action.sa_sigaction = handlers[levels - 1];
  return sigaction(SIGBUS, &action, NULL) ? skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno) : skeep_ok();
}

skeep_status skeep_fault_guard_install(void) {
  SKEEP_KEEP_ERRNO;
  pthread_mutex_lock(&lock);
  const skeep_status st = install();
  pthread_mutex_unlock(&lock);
  return st;
}

static void bus(int how, sigset_t *before) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGBUS);
  pthread_sigmask(how, &set, before);
}

/* One system call reads the mask and unblocks SIGBUS. */
int skeep_guard_open(uint64_t step) {
  static __thread uint64_t open_in;
  sigset_t before;
  if (!__atomic_load_n(&levels, __ATOMIC_RELAXED) || (step && step == open_in)) return 0;
  bus(SIG_UNBLOCK, &before);
  if (sigismember(&before, SIGBUS)) return 1;
  open_in = step;
  return 0;
}

void skeep_guard_shut(void) { bus(SIG_BLOCK, NULL); }

uint64_t skeep_guarded(void (*f)(void *), void *arg) {
  sigjmp_buf here;
  sigjmp_buf *const outer = target;
  const uint64_t control = skeep_float_control();
  if (sigsetjmp(here, 0)) { /* no mask to save: the handler restores it */
    target = outer;
    skeep_float_restore(control); /* f may have left in the middle of a product */
    return fault_address ? fault_address : 1;
  }
  target = &here;
  f(arg);
  target = outer;
  return 0;
}
