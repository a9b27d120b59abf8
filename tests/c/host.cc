// A host in C++: storages as values that close themselves, the shared library, no other header.
#include "check.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

void must(skeep_status s) {
  char text[256];
  if (s.code == SKEEP_OK) return;
  skeep_status_text(s, text, sizeof text);
  throw std::runtime_error(text);
}

class Storage {
public:
  explicit Storage(uint64_t bytes) { must(skeep_storage_allocate(bytes, 0, &handle_)); }
  // The vector is given back to the caller's release function when the last user has gone.
  explicit Storage(std::vector<float> *lent) {
    must(skeep_storage_borrow(lent->data(), lent->size() * sizeof(float), SKEEP_DOMAIN_HEAP, 0,
                              [](void *p) { delete static_cast<std::vector<float> *>(p); }, lent, &handle_));
  }
  Storage(Storage &&other) noexcept : handle_(std::exchange(other.handle_, skeep_storage{})) {}
  Storage(const Storage &) = delete;
  ~Storage() { close(); }
  void close() noexcept {
    if (handle_.cell) skeep_storage_close(handle_, nullptr);
    handle_ = {};
  }
  skeep_view view(uint32_t encoding, std::vector<int64_t> shape, uint64_t byte = 0) const {
    skeep_view v;
    must(skeep_view_of(handle_, byte, encoding, static_cast<uint32_t>(shape.size()), shape.data(), &v));
    return v;
  }

private:
  skeep_storage handle_{};
};

struct Destroy {
  void operator()(skeep_pool *p) const { skeep_pool_destroy(p); }
};

} // namespace

int main() try {
  skeep_counters before, after;
  skeep_counters_read(&before);
  {
    skeep_pool *made;
    must(skeep_pool_create(2, 0, &made));
    const std::unique_ptr<skeep_pool, Destroy> pool(made);
    Storage x(new std::vector<float>{1, 2, 3, 4}), w(6 * 4 * sizeof(float)), y(6 * sizeof(float));
    const skeep_view vx = x.view(SKEEP_F32, {1, 4}), vw = w.view(SKEEP_F32, {6, 4}), vy = y.view(SKEEP_F32, {1, 6});
    for (int i = 0; i < 24; i++) check_floats(&vw)[i] = static_cast<float>(i);
    must(skeep_matmul_t(pool.get(), nullptr, &vx, &vw, &vy));
    for (int o = 0; o < 6; o++) CHECK(check_floats(&vy)[o] == 20.0f + 40.0f * static_cast<float>(o));
    Storage moved(std::move(x));
    CHECK_OK(skeep_view_check(&vx));
    moved.close();
    CHECK_FAILS_ON(skeep_matmul_t(pool.get(), nullptr, &vx, &vw, &vy), SKEEP_ERR_CLOSED, 0);
    try {
      (void)y.view(SKEEP_ENC_Q4_0, {6, 33});
      CHECK(false);
    } catch (const std::runtime_error &e) {
      CHECK(std::string(e.what()).find("axis 1") != std::string::npos);
    }
  }
  skeep_counters_read(&after);
  CHECK(after.storages == before.storages && after.heap_bytes == before.heap_bytes);
  return check_result();
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
