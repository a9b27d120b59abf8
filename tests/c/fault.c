/* A mapped file is truncated while the guard is installed: operations return errors, on workers too and again and
 * again, and the host's own faults go to the handler that was installed before. */
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROWS 512
#define N 128
#define BYTES (sizeof(float) * ROWS * N)

static sigjmp_buf own;
static void own_handler(int signal) {
  (void)signal;
  siglongjmp(own, 1);
}

/* Reads a page that the file no longer has, outside of skeep. */
static int own_fault(const volatile char *page) {
  if (sigsetjmp(own, 1)) return 1;
  return *page * 0;
}

int main(void) {
  static const int64_t x_shape[] = {2, N}, w_shape[] = {ROWS, N}, y_shape[] = {2, ROWS};
  static const char name[] = "a file that is cut";
  skeep_storage sw, sx, sy, sc;
  skeep_view w;
  skeep_pool *pool;
  skeep_step *step;
  double value;
  char text[300];
  uint64_t op = 99;
  const int fd = check_file(NULL, BYTES);
  const char *mine = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  NEED(mine != MAP_FAILED);
  NEED(sigaction(SIGBUS, &(struct sigaction){.sa_handler = own_handler}, NULL) == 0);
  CHECK_OK(skeep_fault_guard_install());
  CHECK_OK(skeep_fault_guard_install()); /* again: the same */

  NEED(skeep_storage_map(fd, 0, BYTES, &sw).code == SKEEP_OK);
  CHECK_OK(skeep_storage_set_name(sw, name));
  NEED(skeep_view_of(sw, 0, SKEEP_F32, 2, w_shape, &w).code == SKEEP_OK);
  skeep_view x = check_new(SKEEP_F32, 2, x_shape, &sx), y = check_new(SKEEP_F32, 2, y_shape, &sy);
  skeep_view copy = check_new(SKEEP_F32, 2, w_shape, &sc);
  NEED(skeep_pool_create(4, 0, &pool).code == SKEEP_OK && skeep_step_create(0, 0, &step).code == SKEEP_OK);
  CHECK_OK(skeep_matmul_t(pool, NULL, &x, &w, &y));

  NEED(ftruncate(fd, 0) == 0);
  for (int again = 0; again < 20; again++) {
    const skeep_status st = skeep_matmul_t(pool, NULL, &x, &w, &y);
    CHECK_FAILS_ON(st, SKEEP_ERR_FAULT, 1);
    skeep_status_text(st, text, sizeof text);
    CHECK(strstr(text, name));
    CHECK(st.detail >= w.data && st.detail < w.data + BYTES);
    CHECK_FAILS(skeep_get(&w, (const int64_t[]){ROWS - 1, N - 1}, &value), SKEEP_ERR_FAULT);
    CHECK_FAILS_ON(skeep_reference_matmul_t(&x, &w, &y, NULL), SKEEP_ERR_FAULT, 1);
    CHECK(own_fault(mine));
    CHECK_OK(skeep_step_begin(step));
    CHECK_FAILS_ON(skeep_matmul_t(pool, step, &x, &w, &y), SKEEP_ERR_FAULT, 1);
    CHECK_FAILS_ON(skeep_step_end(step), SKEEP_ERR_FAULT, 1);
    CHECK_OK(skeep_softcap(pool, NULL, &x, 1, &x)); /* the pool goes on */
  }
  /* The file has its old length but other content: there is no fault, but the step reports the change and which
   * operation read the file first. */
  NEED(ftruncate(fd, BYTES) == 0);
  CHECK_OK(skeep_step_begin(step));
  CHECK_OK(skeep_softcap(pool, step, &x, 1, &x));
  CHECK_OK(skeep_matmul_t(pool, step, &x, &w, &y));
  CHECK_OK(skeep_convert(pool, step, &w, &copy));
  CHECK_FAILS_ON(skeep_step_end(step), SKEEP_ERR_CHANGED, 1);
  CHECK_FAILS_ON(skeep_step_status(step, &op), SKEEP_ERR_CHANGED, 1);
  CHECK(op == 1);
  skeep_status_text(skeep_step_status(step, NULL), text, sizeof text);
  CHECK(strstr(text, name));
  CHECK_FAILS(skeep_storage_verify(sw), SKEEP_ERR_CHANGED);
  /* So does a call without a step, which names the operand. */
  const skeep_status st = skeep_matmul_t(pool, NULL, &x, &w, &y);
  CHECK_FAILS(st, SKEEP_ERR_CHANGED);
  CHECK(st.operand == 1);
  CHECK_FAILS(skeep_get(&w, (const int64_t[]){0, 0}, &value), SKEEP_ERR_CHANGED);

  CHECK_OK(skeep_storage_close(sw, NULL));
  CHECK_OK(skeep_storage_close(sx, NULL));
  CHECK_OK(skeep_storage_close(sy, NULL));
  CHECK_OK(skeep_storage_close(sc, NULL));
  skeep_step_destroy(step);
  skeep_pool_destroy(pool);
  close(fd);
  return check_result();
}
