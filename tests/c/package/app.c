#include <skeep.h>

#include <inttypes.h>
#include <stdio.h>

/* Ends with the sentence of the first status that is not OK. */
static int failed(skeep_status s) {
  char text[256];
  if (s.code == SKEEP_OK) return 0;
  skeep_status_text(s, text, sizeof text);
  fprintf(stderr, "%s\n", text);
  return 1;
}

int main(void) {
  static float x[] = {1, 2, 3}, w[] = {1, 1, 1, 2, 10, 12}, y[2];
  skeep_storage sx, sw, sy;
  skeep_view vx, vw, vy;
  skeep_pool *pool;
  if (failed(skeep_pool_create(0, 0, &pool)) ||
      failed(skeep_storage_borrow(x, sizeof x, SKEEP_DOMAIN_HEAP, 1, NULL, NULL, &sx)) ||
      failed(skeep_storage_borrow(w, sizeof w, SKEEP_DOMAIN_HEAP, 1, NULL, NULL, &sw)) ||
      failed(skeep_storage_borrow(y, sizeof y, SKEEP_DOMAIN_HEAP, 0, NULL, NULL, &sy)) ||
      failed(skeep_view_of(sx, 0, SKEEP_F32, 2, (const int64_t[]){1, 3}, &vx)) ||
      failed(skeep_view_of(sw, 0, SKEEP_F32, 2, (const int64_t[]){2, 3}, &vw)) ||
      failed(skeep_view_of(sy, 0, SKEEP_F32, 2, (const int64_t[]){1, 2}, &vy)) ||
      failed(skeep_matmul_t(pool, NULL, &vx, &vw, &vy)))
    return 1;
  const uint32_t abi = skeep_abi_version();
  printf("%g (ABI %" PRIu32 ".%" PRIu32 ")\n", (double)y[1], abi >> 16, abi & 0xffff);
  skeep_pool_destroy(pool);
  return failed(skeep_storage_close(sx, NULL)) || failed(skeep_storage_close(sw, NULL)) ||
         failed(skeep_storage_close(sy, NULL));
}
