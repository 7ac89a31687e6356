// gpu_probe: the time of each hot kernel beside the least that its bytes and products take, and what CUDA
// itself costs. Prints a line of JSON as soon as it is known:
//
//   {"kind":"ceilings","copy_gb_per_s":…,"product_tflop_per_s":{"bf16":…},"empty_us":…}
//   {"kind":"row","row":"bn_forward 256x56x56x64
//   bf16","us":…,"q1_us":…,"q3_us":…,"bytes":…,"flop":…,"floor_us":…}
//   {"kind":"cuda","row":"cuda node","us":…} or {…,"outcome":"refused: …"}
//
// and "failed" with the error, or "not_reached", in the place of figures. Exit code 1 where something failed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "core/device_library.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "studies/profile/limits.h"
#include "tests/gpu/probe/cuda_probes.h"
#include "tests/gpu/probe/rows.h"

namespace tandem::probe {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::vector<std::string> only;
  std::string algorithms;
  double seconds = 1e9;
  bool list = false, tiny = false, once = false;
};

void say(const Json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

bool asked_for(const Arguments& arguments, const std::string& name) {
  return arguments.only.empty() || std::ranges::any_of(arguments.only, [&](const std::string& part) {
           return name.find(part) != std::string::npos;
         });
}

// ---- timing

struct Timing {
  double median, q1, q3;  // seconds
};

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)];
}

// Writes more than any L2 holds, which also keeps the device busy while the host asks for what is timed.
class Flush {
 public:
  Flush(Backend& backend, bool tiny)
      : backend_(backend),
        memory_(
            Tensor::empty({tiny ? 1 << 16 : 1 << 27}, {DType::u8, backend.device(), MemoryKind::workspace})) {
    run(2);
    const std::uint64_t first = backend_.timestamp();
    run(4);
    seconds_ = backend_.seconds_between(first, backend_.timestamp()) / 4.0;
    backend_.clear_timestamps();
  }

  // For at least so many seconds.
  void run_for(double seconds, int most) { run(std::min(most, 1 + static_cast<int>(seconds / seconds_))); }

 private:
  void run(int times) {
    for (int i = 0; i < times; ++i) backend_.fill(memory_, static_cast<double>(++value_ % 200));
  }

  Backend& backend_;
  Tensor memory_;
  double seconds_ = 0.0;
  int value_ = 0;
};

// By events, with a cold L2, on several sets of operands in turn.
Timing measure(Backend& backend, Flush& flush, const std::vector<Work>& sets, int runs) {
  constexpr int kMostFlushes = 100;
  for (const Work& work : sets) work();  // algorithms are chosen here
  backend.synchronize();
  const auto start = Clock::now();
  sets.front()();
  const double of_host = std::chrono::duration<double>(Clock::now() - start).count();
  backend.synchronize();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> marks;
  for (int i = 0; i < runs; ++i) {
    flush.run_for(1.5 * of_host, kMostFlushes);
    const std::uint64_t first = backend.timestamp();
    sets[static_cast<std::size_t>(i) % sets.size()]();
    marks.emplace_back(first, backend.timestamp());
  }
  std::vector<double> seconds;
  for (const auto& [first, last] : marks) seconds.push_back(backend.seconds_between(first, last));
  backend.clear_timestamps();
  std::sort(seconds.begin(), seconds.end());
  return {quantile(seconds, 0.5), quantile(seconds, 0.25), quantile(seconds, 0.75)};
}

// ---- lines

// An emulator's are not worth measuring.
profile::Limits ceilings(Backend& backend, bool tiny) {
  profile::Limits limits;
  if (tiny) return {.bytes_per_second = 1e9, .products = {{DType::f32, 1e9}}, .empty_seconds = 0.0};
  {
    profile::CopyLoad load(backend);
    limits.bytes_per_second = load.bytes() / load.seconds();
    limits.empty_seconds = load.empty_interval();
  }
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    limits.products.emplace_back(dtype, profile::product_rate(backend, dtype));
  return limits;
}

Json ceilings_json(const profile::Limits& limits) {
  Json products = Json::object();
  for (const auto& [dtype, rate] : limits.products) products[std::string(name_of(dtype))] = 1e-12 * rate;
  return {{"kind", "ceilings"},
          {"copy_gb_per_s", 1e-9 * limits.bytes_per_second},
          {"product_tflop_per_s", products},
          {"empty_us", 1e6 * limits.empty_seconds}};
}

Json described(const Row& row) {
  return {{"kind", "row"},         {"row", row.name},  {"family", row.family},
          {"bytes", row.bytes},    {"flop", row.flop}, {"operands", std::string(name_of(row.operands))},
          {"kernels", row.kernels}};
}

Json timed(const Row& row, Backend& backend, Flush& flush, const profile::Limits& limits, bool tiny) {
  const int count = tiny ? 2 : 4, runs = tiny ? 2 : 20;
  Operands operands(backend, 1);
  std::vector<Work> sets;
  for (int i = 0; i < count; ++i) sets.push_back(row.make(operands));
  const Timing timing = measure(backend, flush, sets, runs);
  const double floor =
      limits.bound(static_cast<std::int64_t>(row.bytes), static_cast<std::int64_t>(row.flop), row.operands);
  Json line = described(row);
  line["us"] = 1e6 * timing.median;
  line["q1_us"] = 1e6 * timing.q1;
  line["q3_us"] = 1e6 * timing.q3;
  line["runs"] = runs;
  line["floor_us"] = 1e6 * floor;
  line["gb_per_s"] = 1e-9 * row.bytes / timing.median;
  line["tflop_per_s"] = 1e-12 * row.flop / timing.median;
  return line;
}

// ---- the program

// What a profiler is to see, in a range "row" within one of the row's name.
void run_once(const Row& row, Backend& backend) {
  Operands operands(backend, 1);
  const Work work = row.make(operands);
  work();
  backend.synchronize();
  backend.begin_range(row.name.c_str());
  backend.begin_range("row");
  work();
  backend.end_range();
  backend.end_range();
  backend.synchronize();
}

class Probing {
 public:
  explicit Probing(const Arguments& arguments) : arguments_(arguments), start_(Clock::now()) {}

  // False where something failed.
  bool run() {
    for (const CudaProbe& probe : cuda_probes())
      line("cuda", probe.name, [&] { return found(probe.ask(arguments_.tiny)); });
    std::vector<Row> rows = all_rows(arguments_.tiny);
    std::erase_if(rows, [&](const Row& row) { return !asked_for(arguments_, row.name); });
    if (rows.empty() && !asked_for(arguments_, "ceilings")) return !failed_;
    Backend& backend = backend_for(Device{DeviceType::cuda});
    adopt_algorithms(backend);
    if (arguments_.once) {
      for (const Row& row : rows) run_once(row, backend);
    } else {
      const profile::Limits limits = ceilings(backend, arguments_.tiny);
      say(ceilings_json(limits));
      Flush flush(backend, arguments_.tiny);
      for (const Row& row : rows) {
        line("row", row.name, [&] { return timed(row, backend, flush, limits, arguments_.tiny); });
        backend.allocator().trim();
      }
    }
    keep_algorithms(backend);
    return !failed_;
  }

 private:
  static Json found(const Finding& finding) {
    Json line = Json::object();
    for (const auto& [name, figure] : finding.figures) line[name] = figure;
    if (!finding.outcome.empty()) line["outcome"] = finding.outcome;
    return line;
  }

  template <class Ask>
  void line(const char* kind, const std::string& name, const Ask& ask) {
    if (!asked_for(arguments_, name)) return;
    Json line{{"kind", kind}, {"row", name}};
    if (std::chrono::duration<double>(Clock::now() - start_).count() > arguments_.seconds) {
      line["not_reached"] = true;
    } else {
      try {
        line.update(ask());
      } catch (const std::exception& error) {
        line["failed"] = error.what();
        failed_ = true;
      }
    }
    say(line);
  }

  void adopt_algorithms(Backend& backend) {
    std::ifstream file(arguments_.algorithms);
    if (!file) return;
    std::ostringstream text;
    text << file.rdbuf();
    std::string reason = "of another card or library";
    try {
      if (backend.adopt_tuning_cache(text.str())) return;
    } catch (const Error& error) {
      reason = error.what();
    }
    fmt::print(stderr, "gpu_probe: {}: {}: algorithms are searched anew\n", arguments_.algorithms, reason);
  }

  void keep_algorithms(Backend& backend) {
    const std::string text = backend.tuning_cache();
    if (arguments_.algorithms.empty() || text.empty()) return;
    std::ofstream file(arguments_.algorithms);
    file << text;
    file.close();
    if (!file) fmt::print(stderr, "gpu_probe: {} cannot be written\n", arguments_.algorithms);
  }

  const Arguments& arguments_;
  const Clock::time_point start_;
  bool failed_ = false;
};

int run(int argc, char* argv[]) {
  Arguments arguments;
  CLI::App app("Times the kernels of the CUDA backend, and CUDA itself");
  app.add_option("--only", arguments.only,
                 "what has one of these texts in its name; \"ceilings\": those alone");
  app.add_option("--algorithms", arguments.algorithms,
                 "file of algorithms, read if it is there, and written");
  app.add_option("--seconds", arguments.seconds, "after so many nothing more is begun");
  app.add_flag("--list", arguments.list, "what there is, without a device");
  app.add_flag("--tiny", arguments.tiny, "extents and counts for an emulator");
  app.add_flag("--once", arguments.once, "every row once, in a range \"row\" for a profiler");
  CLI11_PARSE(app, argc, argv);
  if (arguments.list) {
    for (const CudaProbe& probe : cuda_probes()) say({{"kind", "cuda"}, {"row", probe.name}});
    for (const Row& row : all_rows(false)) say(described(row));
    return 0;
  }
  constexpr int kSkipped = 77;  // to CTest
  if (cuda_devices().count == 0) {
    fmt::print("skipped: {}\n", cuda_devices().why_none);
    return kSkipped;
  }
  return Probing(arguments).run() ? 0 : kExitFailure;
}

}  // namespace

}  // namespace tandem::probe

int main(int argc, char* argv[]) {
  try {
    return tandem::probe::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_probe: %s\n", error.what());
    return 1;
  }
}
