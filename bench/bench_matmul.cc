// Speed of products of the kernel table, compared with what the machine can do at most.
//
//   bench_matmul [--isa=SET,...|all] [--threads=N,...] [--mib=N] [google/benchmark flags]
//
// A case is named ENCODING/ORDER/SET/ROWSxCOLUMNS/TOKENS/THREADS, for example Q4_0/row_major/avx512/4096x14336/1/2; the
// exact products of packed weights are called ENCODING-exact. --benchmark_filter=REGEX chooses among them (google/benchmark
// adds /min_time:... to a name): without it, common encodings in all of their orders with all threads, which takes less
// than three minutes on two cores; --benchmark_filter=. takes everything. --isa (default: the set that SKEEP_ISA and the machine give) runs the cases
// once for each instruction set, --threads (default: 1 and the number of processors) takes any number. For one token the
// processor may prefer another set than the one in use: `skeep kernels` says so, and SKEEP_MACHINE changes it.
// --benchmark_out=FILE writes all samples as JSON.
//
// The weights are a buffer of four times the largest cache, or as much as half of the available memory allows, or
// --mib. Every product takes the next matrix of that buffer, as a model does with its layers, so that no cache helps.
// The limits are cases, too, read/THREADS and multiply/THREADS: reading the same buffer with one sequential stream per
// thread, and multiplying 8-bit integers in registers. Repetitions of all cases are interleaved at random, so that a
// busy moment of the machine touches all alike; printed are medians and what share of the limits' medians they are.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "measure.h"
#include "skeep.h"

namespace {

void check(skeep_status s, const char *what) {
  if (s.code == SKEEP_OK) return;
  char text[256];
  skeep_status_text(s, text, sizeof text);
  std::fprintf(stderr, "bench_matmul: %s: %s\n", what, text);
  std::exit(2);
}

// Shapes of real models: the narrowing matrices of TinyLlama 1.1B and Llama 3 8B, the output layer of Gemma 3 270M.
struct Shape {
  int64_t rows, columns;
};
constexpr Shape kShapes[] = {{2048, 5632}, {4096, 14336}, {262144, 640}};
constexpr int64_t kMaxRows = 262144, kMaxColumns = 14336;
constexpr int64_t kTokens[] = {1, 4, 32, 512}, kMaxTokens = 512;

uint64_t available_memory() {
  uint64_t kib = 0;
  char line[256];
  if (FILE *f = std::fopen("/proc/meminfo", "r")) {
    while (std::fgets(line, sizeof line, f))
      if (std::sscanf(line, "MemAvailable: %lu", &kib) == 1) break;
    std::fclose(f);
  }
  return kib << 10;
}

class Machine {
 public:
  skeep_storage weights, activations, outputs;
  uint64_t bytes;

  explicit Machine(uint64_t mib) : bytes(mib ? mib << 20 : skeep_measure_bytes(available_memory())) {
    check(skeep_storage_allocate(bytes, 0, &weights), "weights");
    check(skeep_storage_allocate(uint64_t(kMaxTokens) * kMaxColumns * 8, 0, &activations), "activations");
    check(skeep_storage_allocate(uint64_t(kMaxTokens) * kMaxRows * 4, 0, &outputs), "outputs");
    skeep_storage_info info;
    check(skeep_storage_info_of(weights, &info), "weights");
    // Two or four bytes from anywhere are a float between 2^-7 and 2, whichever type and order reads them: no case
    // meets a subnormal number or an infinity, and one buffer serves all encodings in all orders.
    uint64_t s = 88172645463325252u;
    for (uint64_t *p = reinterpret_cast<uint64_t *>(info.address), *end = p + bytes / 8; p < end; p++) {
      s ^= s << 13, s ^= s >> 7, s ^= s << 17;
      *p = (s & 0x8383838383838383u) | 0x3c3c3c3c3c3c3c3cu;
    }
    huge_ = skeep_measure_huge(info.address, info.bytes);
    check(skeep_storage_info_of(activations, &info), "activations");
    float *x = reinterpret_cast<float *>(info.address);
    for (int64_t i = 0; i < kMaxTokens * kMaxColumns; i++) x[i] = float(std::sin(double(i) * 12.9898));
  }

  skeep_pool *Pool(uint32_t threads) {
    skeep_pool *&pool = pools_[threads];
    if (!pool) check(skeep_pool_create(threads, 0, &pool), "pool");
    return pool;
  }

  // Where the next matrix of that size begins: behind the one before, or at the begin of the buffer.
  uint64_t Next(uint64_t matrix) {
    if (matrix > bytes) check({SKEEP_ERR_BOUNDS, -1, matrix}, "one matrix (see --mib)");
    const uint64_t at = next_ + matrix > bytes ? 0 : next_;
    next_ = (at + matrix + 63) / 64 * 64;
    return at;
  }

  void Describe() const {
    const double cache = double(skeep_cache_bytes());
    std::printf("\n%s, %.0f MiB of weights", skeep_isa_name(skeep_isa()), double(bytes) / 0x1p20);
    if (cache > 0) std::printf(" (%.1f times the largest cache)", double(bytes) / cache);
    std::printf(", %.0f MiB of them in huge pages\n", double(huge_) / 0x1p20);
  }

 private:
  uint64_t next_ = 0, huge_ = 0;
  std::map<uint32_t, skeep_pool *> pools_;
};
Machine *machine;

struct Case {
  std::string name; // with encoding, order and instruction set
  uint32_t weight, activation;
  skeep_order order;
};

std::string order_name(const skeep_order &o) {
  if (o.family == SKEEP_ORDER_ROW_MAJOR) return "row_major";
  if (o.family == SKEEP_ORDER_INPUT_BLOCK_MAJOR) return "input_block_major";
  std::string s = "row_panel" + std::to_string(o.panel);
  if (o.interleave) s += "i" + std::to_string(o.interleave) + "v" + std::to_string(o.version);
  return s;
}

// Every product of the kernel table that runs here, the best row of each.
std::vector<Case> products() {
  std::vector<Case> cases;
  for (size_t row = 0; row < skeep_kernel_count(); row++) {
    skeep_kernel_info k;
    check(skeep_kernel_at(row, &k), "kernel");
    if (k.op != SKEEP_OP_MATMUL_T || !k.runnable) continue;
    for (size_t e = 0; e < skeep_encoding_count(); e++) {
      skeep_encoding_info info;
      check(skeep_encoding_at(e, &info), "encoding");
      if (info.id != k.encoding) continue;
      const bool exact = info.block_elements > 1 && k.activation == SKEEP_F32;
      const std::string name = info.name + std::string(exact ? "-exact/" : "/") + order_name(k.order) + "/" +
                               skeep_isa_name(skeep_isa());
      const auto same = [&name](const Case &c) { return c.name == name; };
      if (std::none_of(cases.begin(), cases.end(), same)) cases.push_back({name, k.encoding, k.activation, k.order});
    }
  }
  return cases;
}

// A weight of a case from a byte of the buffer on.
skeep_view weight_at(const Case &c, const Shape &s, uint64_t byte) {
  skeep_view w;
  const int64_t shape[] = {s.rows, s.columns};
  check(skeep_view_of(machine->weights, byte, c.weight, 2, shape, &w), "w");
  const int64_t blocks = s.columns / w.layout.block;
  w.layout.order = c.order;
  if (c.order.family == SKEEP_ORDER_ROW_MAJOR) return w;
  w.layout.row_axis = 0;
  w.layout.stride[0] = c.order.family == SKEEP_ORDER_ROW_PANEL ? blocks : 1;
  w.layout.stride[1] = c.order.family == SKEEP_ORDER_ROW_PANEL ? c.order.panel : s.rows;
  return w;
}

void Count(benchmark::State &state, double bytes, double operations) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, rate);
  state.counters["Gop/s"] = benchmark::Counter(operations / 1e9, rate);
}

void product(benchmark::State &state, const Case &c, const Shape &shape, int64_t tokens, uint32_t threads) {
  skeep_pool *pool = machine->Pool(threads);
  skeep_view x, f32, y;
  const int64_t xs[] = {tokens, shape.columns}, ws[] = {shape.rows, shape.columns}, ys[] = {tokens, shape.rows};
  check(skeep_view_of(machine->activations, 0, SKEEP_F32, 2, xs, &f32), "x");
  x = f32;
  if (c.activation == SKEEP_ENC_A8) {
    check(skeep_view_of(machine->activations, uint64_t(kMaxTokens) * kMaxColumns * 4, SKEEP_ENC_A8, 2, xs, &x), "x in A8");
    check(skeep_quantize_rows(pool, nullptr, &f32, &x), "quantize");
  }
  check(skeep_view_of(machine->outputs, 0, SKEEP_F32, 2, ys, &y), "y");
  uint64_t matrix;
  check(skeep_bytes_of(c.weight, 2, ws, &matrix), "matrix");
  for (auto _ : state) {
    const skeep_view w = weight_at(c, shape, machine->Next(matrix));
    check(skeep_matmul_t(pool, nullptr, &x, &w, &y), c.name.c_str());
  }
  Count(state, double(matrix), 2 * double(shape.rows) * double(shape.columns) * double(tokens));
}

void read_buffer(benchmark::State &state, uint32_t threads) {
  skeep_pool *pool = machine->Pool(threads);
  for (auto _ : state) {
    double seconds;
    check(skeep_measure_read(pool, machine->weights, &seconds), "read");
    state.SetIterationTime(seconds); // of the faster of two ways to read
  }
  Count(state, double(machine->bytes), 0);
}

void multiply(benchmark::State &state, uint32_t threads) {
  skeep_pool *pool = machine->Pool(threads);
  double operations = 0, seconds;
  for (auto _ : state) check(skeep_measure_multiply(pool, &operations, &seconds), "multiply");
  Count(state, 0, operations);
}

// Collects the medians, and prints a line for each case in the order of the cases.
class Reporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context &) override { return true; }
  void ReportRuns(const std::vector<Run> &runs) override {
    for (const Run &r : runs)
      if (r.aggregate_name == "median" || runs.size() == 1)
        rows_[r.family_index] = {r.run_name.function_name, r.GetAdjustedRealTime(), r.counters.at("GB/s"), r.counters.at("Gop/s")};
  }
  void Finalize() override {
    std::map<std::string, Row> limits;
    for (const auto &row : rows_) limits[row.second.name] = row.second;
    machine->Describe();
    std::printf("\n%-48s %9s %9s %8s %9s %8s\n", "", "ms", "GB/s", "of read", "Gop/s", "of peak");
    for (const auto &row : rows_) {
      const Row &r = row.second;
      const std::string threads = r.name.substr(r.name.rfind('/') + 1);
      std::printf("%-48s %9.3f %9.1f %8s %9.1f %8s\n", r.name.c_str(), r.ms, r.gbs, Share(r.gbs, limits["read/" + threads].gbs).c_str(),
                  r.gops, Share(r.gops, limits["multiply/" + threads].gops).c_str());
    }
  }

 private:
  struct Row {
    std::string name;
    double ms, gbs, gops;
  };
  static std::string Share(double of, double limit) {
    return of > 0 && limit > 0 ? std::to_string(std::lround(100 * of / limit)) + " %" : "-";
  }
  std::map<int64_t, Row> rows_; // by the order of registration
};

std::vector<std::string> split(const std::string &list) {
  std::vector<std::string> items;
  std::stringstream in(list);
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  return items;
}

// Runs this program again for each instruction set, which is chosen once in a process. Returns the worst exit status.
int run_each(const std::vector<std::string> &sets, std::vector<char *> args) {
  int worst = 0;
  for (const std::string &set : sets) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      setenv("SKEEP_ISA", set.c_str(), 1);
      args.push_back(nullptr);
      execv("/proc/self/exe", args.data());
      _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) return 2;
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  return worst;
}

}  // namespace

int main(int argc, char **argv) {
  std::vector<uint32_t> threads{1};
  const uint32_t processors = std::max(1u, std::thread::hardware_concurrency());
  if (processors > 1) threads.push_back(processors);
  std::vector<std::string> sets;
  uint64_t mib = 0;
  std::vector<char *> own{argv[0]}, user;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg.rfind("--isa=", 0) == 0) {
      sets = split(arg.substr(6));
      continue;
    }
    own.push_back(argv[i]); // what the program gets that runs one instruction set
    if (std::sscanf(argv[i], "--mib=%lu", &mib) == 1) continue;
    if (arg.rfind("--threads=", 0) == 0) {
      threads.clear();
      for (const std::string &n : split(arg.substr(10))) threads.push_back(uint32_t(std::atoi(n.c_str())));
      if (threads.empty() || std::count(threads.begin(), threads.end(), 0u)) check({SKEEP_ERR_ARGUMENT, -1, 0}, "--threads");
      continue;
    }
    user.push_back(argv[i]);
  }
  if (sets == std::vector<std::string>{"all"}) {
    sets.clear();
    for (uint32_t isa = SKEEP_ISA_PORTABLE; isa <= SKEEP_ISA_NEON; isa++) sets.push_back(skeep_isa_name(isa));
    std::reverse(sets.begin(), sets.end());
  }
  if (!sets.empty()) return run_each(sets, own);
  if (const char *asked = std::getenv("SKEEP_ISA"))
    if (std::strcmp(asked, skeep_isa_name(skeep_isa())) != 0) {
      std::fprintf(stderr, "bench_matmul: this machine does not have %s\n", asked);
      return 0;
    }

  const std::string most = std::to_string(*std::max_element(threads.begin(), threads.end()));
  std::string usual = "--benchmark_filter=^(Q4_0|Q4_K|Q5_K|Q6_K|Q8_0|F16)/[^/]+/[^/]+/"
                      "(2048x5632/(1|4|32|512)|4096x14336/(1|512)|262144x640/1)/" + most + "/";
  static char interleave[] = "--benchmark_enable_random_interleaving=true", repetitions[] = "--benchmark_repetitions=5";
  std::vector<char *> args{argv[0], interleave, repetitions, usual.data()};
  args.insert(args.end(), user.begin(), user.end()); // the user's own come later and win
  int count = int(args.size());
  benchmark::Initialize(&count, args.data());
  if (benchmark::ReportUnrecognizedArguments(count, args.data())) return 2;

  static Machine here(mib);
  machine = &here;
  const auto settle = [](benchmark::internal::Benchmark *b) { b->MinTime(0.05)->Unit(benchmark::kMillisecond); };
  for (uint32_t t : threads) {
    settle(benchmark::RegisterBenchmark(("read/" + std::to_string(t)).c_str(), read_buffer, t)->UseManualTime());
    settle(benchmark::RegisterBenchmark(("multiply/" + std::to_string(t)).c_str(), multiply, t)->UseRealTime());
  }
  const std::vector<Case> cases = products();
  for (const Case &c : cases)
    for (const Shape &s : kShapes) {
      skeep_view w;
      const int64_t shape[] = {s.rows, s.columns};
      if (skeep_view_of(machine->weights, 0, c.weight, 2, shape, &w).code) continue; // rows are no whole blocks
      for (int64_t tokens : kTokens)
        for (uint32_t t : threads) {
          const std::string name = c.name + "/" + std::to_string(s.rows) + "x" + std::to_string(s.columns) + "/" +
                                   std::to_string(tokens) + "/" + std::to_string(t);
          settle(benchmark::RegisterBenchmark(name.c_str(), product, c, s, tokens, t)->UseRealTime());
        }
    }
  std::string filter = benchmark::GetBenchmarkFilter();
  if (filter.empty() || filter[0] != '-') filter = "(" + filter + ")|^(read|multiply)/"; // a leading - takes all but those
  Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, filter);
  benchmark::Shutdown();
  return 0;
}
