/* Faults of mapped pages become errors: a SIGBUS inside skeep_guarded leaves it instead of ending the process. */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

/* Where this thread's innermost guarded call goes on after a fault; NULL outside of any. Volatile: the compiler
 * sees no reader of the store before the call. Initial-exec: the handler must not make the thread-local block. */
static __thread sigjmp_buf *volatile target __attribute__((tls_model("initial-exec")));
static __thread volatile uint64_t fault_address __attribute__((tls_model("initial-exec")));

static struct sigaction previous;
static int installed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Hands a SIGBUS that is not ours to whoever had the signal before. */
static void chain(int signal, siginfo_t *info, void *context) {
  if (previous.sa_flags & SA_SIGINFO || (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)) {
    /* Our own mask is empty; that handler expects at least its own. The kernel restores the mask at return. */
    pthread_sigmask(SIG_BLOCK, &previous.sa_mask, NULL);
    if (previous.sa_flags & SA_SIGINFO)
      previous.sa_sigaction(signal, info, context);
    else
      previous.sa_handler(signal);
    return;
  }
  if (info->si_code <= 0 && previous.sa_handler == SIG_IGN) return; /* sent by somebody, ignored before */
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
  const int saved = errno;
  chain(signal, info, context);
  errno = saved;
}

skeep_status skeep_fault_guard_install(void) {
  skeep_status st = skeep_ok();
  pthread_mutex_lock(&lock);
  if (!installed) {
    /* NODEFER and an empty mask: after a jump out of the handler SIGBUS must not stay blocked, the second fault
     * would kill. ONSTACK: threads of Go have small stacks of their own and an alternate one. */
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    action.sa_sigaction = handler;
    sigemptyset(&action.sa_mask);
    /* The previous handler must be known before ours can run. */
    if (sigaction(SIGBUS, NULL, &previous) || sigaction(SIGBUS, &action, NULL))
      st = skeep_fail(SKEEP_ERR_IO, -1, (uint64_t)errno);
    else
      installed = 1;
  }
  pthread_mutex_unlock(&lock);
  return st;
}

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
