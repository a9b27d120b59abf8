/* Ends a test that hangs, with its name. Include it before anything else. */
#ifndef SKEEP_TESTS_WATCH_H
#define SKEEP_TESTS_WATCH_H

#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const char *volatile watched = "nothing";

static void watch_over(int signal) {
  (void)signal;
  const char *const name = watched;
  if (write(2, "hangs: ", 7) + write(2, name, strlen(name)) + write(2, "\n", 1) >= 0) _exit(1);
  _exit(1);
}

/* Allows the test called name a minute and a half. The next call, or NULL, ends that time. */
static void watch(const char *name) {
  watched = name ? name : "nothing";
  signal(SIGALRM, watch_over);
  alarm(name ? 90 : 0);
}

#endif
