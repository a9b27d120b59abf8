/* Faults of mapped pages become errors: a SIGBUS inside skeep_guarded leaves it instead of ending the process. */
#include "internal.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#define LOCAL static __thread __attribute__((tls_model("initial-exec"))) /* the handler must not make the block */

/* Where this thread's innermost guarded call goes on after a fault; NULL outside of any. Volatile: the compiler
 * sees no reader of the store before the call. */
LOCAL sigjmp_buf *volatile target;
LOCAL volatile uint64_t fault_address;

/* Who had the signal before each change of ours, oldest first. Entries are written before the count that makes them
 * visible, and never again. */
#define CHANGES 16u
static struct sigaction previous[CHANGES];
static uint32_t changes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The fault that this thread handed on last: a handler of the host may call ours in turn, for the same fault, and
 * then those older than itself are next. It is the same fault when it has the same context and we stand deeper in
 * the stack: the kernel always leaves the same distance between the two, and a handler that left by a jump says
 * nothing. */
LOCAL const void *volatile passed_context;
LOCAL volatile uintptr_t passed_frame;
LOCAL volatile uint32_t passed_to;

static const struct sigaction *next_of(const void *context, uintptr_t frame) {
  static const struct sigaction none = {.sa_handler = SIG_DFL};
  if (context != passed_context || frame >= passed_frame) {
    passed_context = context;
    passed_frame = frame;
    passed_to = __atomic_load_n(&changes, __ATOMIC_ACQUIRE);
  }
  if (!passed_to) return &none; /* the oldest one calls us: it came back later */
  return &previous[--passed_to];
}

/* Hands a SIGBUS that is not ours to whoever had the signal before. */
static void chain(int signal, siginfo_t *info, void *context, uintptr_t frame) {
  const struct sigaction *to = next_of(context, frame);
  if (to->sa_flags & SA_SIGINFO || (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)) {
    /* Our own mask is empty; that handler expects at least its own. The kernel restores the mask at return. */
    pthread_sigmask(SIG_BLOCK, &to->sa_mask, NULL);
    if (to->sa_flags & SA_SIGINFO)
      to->sa_sigaction(signal, info, context);
    else
      to->sa_handler(signal);
    return;
  }
  if (info->si_code <= 0 && to->sa_handler == SIG_IGN) return; /* sent by somebody, ignored before */
  /* A fault cannot be ignored: with the default action back, the instruction faults again and ends the process.
   * A signal that was sent must be sent again. */
  sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
  if (info->si_code <= 0) raise(SIGBUS);
}

static void handler(int signal, siginfo_t *info, void *context) {
  sigjmp_buf *to = target;
  if (to && info->si_code > 0) { /* from the kernel, for an instruction of this thread */
    fault_address = (uint64_t)(uintptr_t)info->si_addr;
    siglongjmp(*to, 1);
  }
  SKEEP_KEEP_ERRNO;
  chain(signal, info, context, (uintptr_t)__builtin_frame_address(0));
}

static int is_ours(const struct sigaction *a) { return a->sa_flags & SA_SIGINFO && a->sa_sigaction == handler; }

static int same(const struct sigaction *a, const struct sigaction *b) {
  if ((a->sa_flags ^ b->sa_flags) & SA_SIGINFO) return 0;
  return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler;
}

/* Lock held. */
static skeep_status install(void) {
  struct sigaction now, action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  /* NODEFER and an empty mask: after a jump out of the handler SIGBUS must not stay blocked, the second fault would
   * kill. ONSTACK: threads of Go have small stacks of their own and an alternate one. */
  action.sa_sigaction = handler;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, NULL, &now)) return skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
  if (is_ours(&now)) return skeep_ok();
  /* The previous handler must be known before ours can run. */
  if (!changes || !same(&now, &previous[changes - 1])) {
    if (changes == CHANGES) return skeep_fail(SKEEP_ERR_MEMORY, -1, sizeof previous);
    previous[changes] = now;
    __atomic_store_n(&changes, changes + 1, __ATOMIC_RELEASE);
  }
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

/* One system call reads the mask and opens it. */
int skeep_guard_open(uint64_t step) {
  static __thread uint64_t open_in;
  sigset_t before;
  if (!__atomic_load_n(&changes, __ATOMIC_RELAXED) || (step && step == open_in)) return 0;
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
  if (sigsetjmp(here, 0)) { /* no mask to save: none was changed */
    target = outer;
    skeep_float_restore(control); /* f may have left in the middle of a product */
    return fault_address ? fault_address : 1;
  }
  target = &here;
  f(arg);
  target = outer;
  return 0;
}
