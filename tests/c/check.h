/* Shared by the test programs: checks that count and report what they find, and functions that make operands. A program
 * ends with `return check_result();`. Checks may be used by several threads. Include it first, since it enables all
 * declarations of the system headers. */
#ifndef SKEEP_TESTS_CHECK_H
#define SKEEP_TESTS_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "skeep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t checks_made, checks_failed;

static inline void check_note(int good, const char *file, int line, const char *what, const char *found) {
  __atomic_add_fetch(&checks_made, 1, __ATOMIC_RELAXED);
  if (good) return;
  if (__atomic_add_fetch(&checks_failed, 1, __ATOMIC_RELAXED) <= 20)
    fprintf(stderr, "%s:%d: %s%s%s\n", file, line, what, found[0] ? ": " : "", found);
}

/* Checks the code of a status, and its operand unless that is -2. */
static inline int check_status(skeep_status s, int32_t code, int32_t operand, const char *file, int line,
                               const char *what) {
  char text[256], found[512];
  const int good = s.code == code && (operand == -2 || s.operand == operand);
  skeep_status_text(s, text, sizeof text);
  snprintf(found, sizeof found, "code %" PRId32 ", operand %" PRId32 ", detail %" PRIu64 " (%s)", s.code, s.operand,
           s.detail, text);
  check_note(good, file, line, what, found);
  return good;
}

static inline int check_result(void) {
  printf("%" PRIu64 " checks, %" PRIu64 " failed\n", checks_made, checks_failed);
  return checks_failed || !checks_made;
}

#define CHECK(condition) check_note(!!(condition), __FILE__, __LINE__, #condition, "")
#define CHECK_OK(call) check_status((call), SKEEP_OK, -2, __FILE__, __LINE__, #call)
#define CHECK_FAILS(call, code) check_status((call), (code), -2, __FILE__, __LINE__, #call)
#define CHECK_FAILS_ON(call, code, operand) check_status((call), (code), (operand), __FILE__, __LINE__, #call)
/* A check without which the test cannot continue. */
#define NEED(condition)                                                       \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: needs %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* The same sequence on every machine: xorshift64*, Vigna 2016. */
static inline uint32_t check_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (uint32_t)((*state * 2685821657736338717u) >> 32);
}
/* In [-1, 1). */
static inline float check_float(uint64_t *state) { return (float)(check_random(state) >> 8) / 8388608.0f - 1.0f; }

/* A gap-free view of new storage; exits when there is none. */
static inline skeep_view check_new(uint32_t encoding, uint32_t rank, const int64_t *shape, skeep_storage *storage) {
  skeep_view v;
  uint64_t bytes = 0;
  NEED(skeep_bytes_of(encoding, rank, shape, &bytes).code == SKEEP_OK);
  NEED(skeep_storage_allocate(bytes, 0, storage).code == SKEEP_OK);
  NEED(skeep_view_of(*storage, 0, encoding, rank, shape, &v).code == SKEEP_OK);
  return v;
}

/* An open file without a name, of so many bytes: those of content or, when that is NULL, zeros. */
static inline int check_file(const void *content, size_t bytes) {
  FILE *unnamed = tmpfile();
  NEED(unnamed != NULL);
  const int fd = dup(fileno(unnamed));
  NEED(fd >= 0 && fclose(unnamed) == 0);
  NEED(content ? write(fd, content, bytes) == (ssize_t)bytes : ftruncate(fd, (off_t)bytes) == 0);
  return fd;
}

static inline char *check_bytes(const skeep_view *v) { return (char *)(uintptr_t)v->data; }
static inline float *check_floats(const skeep_view *v) { return (float *)(void *)check_bytes(v); }

#endif
