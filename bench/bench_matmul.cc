// Speed of products whose weights do not fit into any cache, compared with the memory bandwidth measured in the same
// run.
//
//   bench_matmul [--mib=512] [--n=4096] [--out=4096] [google/benchmark flags]
//
// The weights fill a buffer with matrices of out rows and n columns; one iteration multiplies all of them, as a
// model does with its layers. Repetitions are interleaved at random, so that a busy moment of the machine touches all
// cases; the summary behind the table takes medians. SKEEP_ISA chooses the instruction set. Without a filter
// the weights that are common are measured; --benchmark_filter=. takes every product of the kernel table.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "skeep.h"

namespace {

void check(skeep_status s, const char *what) {
  if (s.code == SKEEP_OK) return;
  char text[256];
  skeep_status_text(s, text, sizeof text);
  std::fprintf(stderr, "bench_matmul: %s: %s\n", what, text);
  std::exit(2);
}

uint64_t mib = 512;
int64_t columns = 4096, rows = 4096;
constexpr uint32_t kMaxThreads = 2;
constexpr int64_t kMaxTokens = 64;

struct Machine {
  skeep_storage weights, activations, outputs;
  uint64_t bytes;
  skeep_pool *pool[kMaxThreads + 1];
  const char *data;

  // Every 16-bit word is a number near 1, whichever float type reads it: no case meets a subnormal or an infinity,
  // and one buffer serves all encodings.
  Machine() : bytes(mib << 20) {
    check(skeep_storage_allocate(bytes, 0, &weights), "weights");
    check(skeep_storage_allocate(uint64_t(kMaxTokens) * columns * 8, 0, &activations), "activations");
    check(skeep_storage_allocate(uint64_t(kMaxTokens) * rows * 4, 0, &outputs), "outputs");
    skeep_storage_info info;
    check(skeep_storage_info_of(weights, &info), "weights");
    data = reinterpret_cast<const char *>(info.address);
    uint64_t s = 88172645463325252u;
    for (uint64_t *p = reinterpret_cast<uint64_t *>(info.address), *end = p + bytes / 8; p < end; p++) {
      s ^= s << 13, s ^= s >> 7, s ^= s << 17;
      *p = (s & 0x83ff83ff83ff83ffu) | 0x3c003c003c003c00u;
    }
    check(skeep_storage_info_of(activations, &info), "activations");
    float *x = reinterpret_cast<float *>(info.address);
    for (int64_t i = 0; i < kMaxTokens * columns; i++) x[i] = float(std::sin(double(i) * 12.9898));
    for (uint32_t t = 1; t <= kMaxThreads; t++) check(skeep_pool_create(t, 0, &pool[t]), "pool");
  }
};
Machine &machine() {
  static Machine m;
  return m;
}

// Adds the 64-bit words of [p, p + bytes), reading eight long rows at once, as products do.
uint64_t read_rows(const char *p, uint64_t bytes) {
  typedef uint64_t vec __attribute__((vector_size(32), aligned(1), may_alias));
  const uint64_t row = bytes / 8 / 64 * 64;
  vec sum[4] = {};
  for (uint64_t k = 0; k < row; k += 64)
    for (int r = 0; r < 8; r++) {
      const char *q = p + r * row + k;
      __builtin_prefetch(q + 1024, 0, 3);
      sum[r % 4] += *reinterpret_cast<const vec *>(q) + *reinterpret_cast<const vec *>(q + 32);
    }
  const vec all = sum[0] + sum[1] + (sum[2] + sum[3]);
  return all[0] + all[1] + all[2] + all[3];
}

// Threads take the next piece when they are free: with a fixed share for each, all would wait for the slowest
// processor.
void read_pieces(const char *data, uint64_t bytes, std::atomic<uint64_t> *next, uint64_t *sum) {
  constexpr uint64_t kPiece = 1 << 20;
  uint64_t s = 0;
  for (uint64_t at; (at = next->fetch_add(kPiece)) + kPiece <= bytes;) s += read_rows(data + at, kPiece);
  *sum = s;
}

void read_bandwidth(benchmark::State &state) {
  const auto threads = uint64_t(state.range(0));
  Machine &m = machine();
  for (auto _ : state) {
    uint64_t sum[kMaxThreads];
    std::atomic<uint64_t> next{0};
    std::vector<std::thread> others;
    for (uint64_t t = 1; t < threads; t++) others.emplace_back(read_pieces, m.data, m.bytes, &next, &sum[t]);
    read_pieces(m.data, m.bytes, &next, &sum[0]);
    for (auto &t : others) t.join();
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(int64_t(state.iterations() * m.bytes));
}

// Every product of the kernel table that runs here, the best row of each; exact ones of packed weights by that name.
struct Case {
  std::string name;
  uint32_t weight, activation;
};
std::vector<Case> products() {
  std::vector<Case> cases;
  for (size_t row = 0; row < skeep_kernel_count(); row++) {
    skeep_kernel_info k;
    check(skeep_kernel_at(row, &k), "kernel");
    if (k.op != SKEEP_OP_MATMUL_T || !k.runnable) continue;
    const auto same = [&k](const Case &c) { return c.weight == k.encoding && c.activation == k.activation; };
    if (std::any_of(cases.begin(), cases.end(), same)) continue;
    for (size_t e = 0; e < skeep_encoding_count(); e++) {
      skeep_encoding_info info;
      check(skeep_encoding_at(e, &info), "encoding");
      const bool exact = info.block_elements > 1 && k.activation == SKEEP_F32;
      if (info.id == k.encoding) cases.push_back({info.name + std::string(exact ? "-exact" : ""), k.encoding, k.activation});
    }
  }
  return cases;
}

void product(benchmark::State &state, const Case &c) {
  Machine &m = machine();
  const int64_t tokens = state.range(0);
  skeep_pool *pool = m.pool[state.range(1)];
  skeep_view x, f32, w, y;
  const int64_t xs[] = {tokens, columns}, ws[] = {rows, columns}, ys[] = {tokens, rows};
  check(skeep_view_of(m.activations, 0, SKEEP_F32, 2, xs, &f32), "x");
  x = f32;
  if (c.activation == SKEEP_ENC_A8) {
    check(skeep_view_of(m.activations, uint64_t(kMaxTokens) * columns * 4, SKEEP_ENC_A8, 2, xs, &x), "x in A8");
    check(skeep_quantize_rows(pool, nullptr, &f32, &x), "quantize");
  }
  check(skeep_view_of(m.outputs, 0, SKEEP_F32, 2, ys, &y), "y");
  uint64_t matrix;
  check(skeep_bytes_of(c.weight, 2, ws, &matrix), "matrix");
  const uint64_t count = m.bytes / matrix;
  if (!count) check({SKEEP_ERR_BOUNDS, -1, matrix}, "one matrix");
  for (auto _ : state)
    for (uint64_t i = 0; i < count; i++) {
      check(skeep_view_of(m.weights, i * matrix, c.weight, 2, ws, &w), "w");
      check(skeep_matmul_t(pool, nullptr, &x, &w, &y), c.name.c_str());
    }
  state.SetBytesProcessed(int64_t(state.iterations() * count * matrix));
  state.counters["GMAC/s"] = benchmark::Counter(double(count) * double(rows) * double(columns) * double(tokens) / 1e9,
                                                benchmark::Counter::kIsIterationInvariantRate);
}

// Medians as google/benchmark prints them, and the times of each case for the summary.
class Reporter : public benchmark::ConsoleReporter {
 public:
  explicit Reporter(const std::vector<Case> &cases) : ConsoleReporter(OO_None), cases_(cases) {}

  void ReportRuns(const std::vector<Run> &runs) override {
    std::vector<Run> medians;
    for (const Run &r : runs) {
      const std::string name = r.run_name.function_name + "/" + r.run_name.args;
      if (r.run_type == Run::RT_Aggregate) {
        if (r.aggregate_name == "median") medians.push_back(r);
      } else if (!r.error_occurred) {
        const double seconds = r.real_accumulated_time / double(r.iterations);
        times_[name].push_back(seconds);
        bytes_[name] = r.counters.at("bytes_per_second") * seconds;
      }
    }
    if (medians.empty() && runs.size() == 1) medians = runs; // a single repetition has no median
    if (!medians.empty()) ConsoleReporter::ReportRuns(medians);
  }

  void Summary() {
    const double one = Rate("read/1"), two = Rate("read/2");
    if (one == 0 || two == 0) return;
    std::printf("\nisa %s, %llu MiB of weights, n %lld, %lld rows a matrix; medians\n", skeep_isa_name(skeep_isa()),
                static_cast<unsigned long long>(mib), static_cast<long long>(columns), static_cast<long long>(rows));
    std::printf("read bandwidth: %.1f GB/s one thread, %.1f two (x%.2f)\n\n", one / 1e9, two / 1e9, two / one);
    std::printf("              | one token, GB/s | share of memory | 2 threads against 1 | 64 tokens cost\n"
                "threads:      |       1       2 |       1       2 |   1 token 64 tokens |      1       2\n");
    for (const Case &c : cases_) {
      const std::string &name = c.name;
      const double r1 = Rate(name + "/1/1"), r2 = Rate(name + "/1/2");
      const double m1 = Rate(name + "/64/1"), m2 = Rate(name + "/64/2");
      if (r1 == 0 || r2 == 0 || m1 == 0 || m2 == 0) continue;
      std::printf("%-13s | %7.1f %7.1f | %6.0f%% %6.0f%% | %9.2f %9.2f | x%5.1f  x%5.1f\n", name.c_str(), r1 / 1e9, r2 / 1e9,
                  100 * r1 / one, 100 * r2 / two, r2 / r1, m2 / m1, r1 / m1, r2 / m2);
    }
  }

 private:
  // Bytes a second, from the median time.
  double Rate(const std::string &name) {
    auto at = times_.find(name);
    if (at == times_.end()) return 0;
    std::vector<double> &t = at->second;
    std::sort(t.begin(), t.end());
    return bytes_[name] / t[t.size() / 2];
  }
  const std::vector<Case> &cases_;
  std::map<std::string, std::vector<double>> times_;
  std::map<std::string, double> bytes_;
};

}  // namespace

int main(int argc, char **argv) {
  std::vector<char *> args{argv[0]};
  static char interleave[] = "--benchmark_enable_random_interleaving=true", repetitions[] = "--benchmark_repetitions=5";
  static char common[] = "--benchmark_filter=^(read|F32|F16|BF16|Q[4568]_[0K]|Q[48]_0-exact)/";
  args.insert(args.end(), {interleave, repetitions, common}); // the user's own come later and win
  for (int i = 1; i < argc; i++) {
    if (std::sscanf(argv[i], "--mib=%lu", &mib) == 1 || std::sscanf(argv[i], "--n=%ld", &columns) == 1 ||
        std::sscanf(argv[i], "--out=%ld", &rows) == 1)
      continue;
    args.push_back(argv[i]);
  }
  int count = int(args.size());
  benchmark::Initialize(&count, args.data());
  if (benchmark::ReportUnrecognizedArguments(count, args.data())) return 2;
  benchmark::RegisterBenchmark("read", read_bandwidth)
      ->Arg(1)
      ->Arg(2)
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
  const std::vector<Case> cases = products();
  for (const Case &c : cases)
    for (int64_t tokens : {1, 64})
      for (int64_t threads : {1, 2})
        benchmark::RegisterBenchmark(c.name.c_str(), product, c)
            ->Args({tokens, threads})
            ->Iterations(1)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
  Reporter reporter(cases);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.Summary();
  benchmark::Shutdown();
  return 0;
}
