// Times each algorithm of the CPU's convolutions on the shapes of networks, and compares the choice of
// core/cpu/conv_choice.h with the fastest. The figures behind its rules come from here (docs/cpu.md).
//
// As in a training step, images come from memory rather than a core's cache, and filters are packed anew in
// each call. Rounds alternate between the algorithms; the time of an algorithm is its best round.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/conv_shapes.h"
#include "core/backend.h"
#include "core/cpu/conv_choice.h"
#include "core/cpu/conv_probe.h"
#include "core/cpu/cpu_features.h"
#include "core/cpu/level.h"
#include "core/error.h"
#include "core/kernels/conv.h"
#include "core/kernels/random.h"

namespace {

using namespace tandem;
using cpu::ConvAlgorithm;
using cpu::onednn::Convolution;
using cpu::onednn::Pass;
using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kPasses{"forward", "input_gradient", "filter_gradient"};
constexpr std::array kAlgorithms{ConvAlgorithm::library,  ConvAlgorithm::product,   ConvAlgorithm::direct,
                                 ConvAlgorithm::winograd, ConvAlgorithm::depthwise, ConvAlgorithm::amx,
                                 ConvAlgorithm::generic};
constexpr std::size_t kMostSets = 32;

const char* name_of(Pass pass) { return kPasses[static_cast<std::size_t>(pass)]; }

struct Options {
  std::vector<std::string> shapes, networks, passes, algorithms, dtypes{"f32", "bf16", "f16"};
  int threads = 0, rounds = 5;
  double milliseconds = 20.0, tolerance = 5.0;
  bool generic = false, accumulate = false, json = false, processor = false;
  int spread = 64;
};

struct Case {
  std::string_view network;  // "" for a shape of the command line
  Convolution problem;
  Pass pass;
  DType dtype;
  int count;  // per step

  // As autocast chooses them: gradients of filters are f32.
  cpu::ConvDtypes dtypes() const {
    return {dtype, dtype, pass == Pass::filter_gradient ? DType::f32 : dtype};
  }
  // Operations of the definition, borders included.
  double flop() const {
    const Convolution& p = problem;
    return 2.0 * static_cast<double>(p.batch * p.out_height * p.out_width * p.out_channels) *
           static_cast<double>(p.kernel_height * p.kernel_width * p.channels / p.options.groups);
  }
};

struct Measured {
  ConvAlgorithm algorithm;
  std::string implementation;  // from ConvolutionTrace
  std::int64_t calls = 1;      // per round
  double seconds = std::numeric_limits<double>::infinity();
};

struct Result {
  Case what;
  std::vector<Measured> measured;
  ConvAlgorithm chosen;

  const Measured& fastest() const { return *std::ranges::min_element(measured, {}, &Measured::seconds); }
  const Measured& picked() const { return *std::ranges::find(measured, chosen, &Measured::algorithm); }
  double slowdown() const { return picked().seconds / fastest().seconds; }
};

// The tensors of a case, with enough copies to exceed the caches.
class Operands {
 public:
  // `spread`: bytes of the images that calls use in turn.
  Operands(const Case& what, bool accumulate, std::size_t spread) : what_(what), accumulate_(accumulate) {
    const Convolution& p = what.problem;
    const Shape image{p.batch, p.height, p.width, p.channels},
        result{p.batch, p.out_height, p.out_width, p.out_channels},
        filter{p.out_channels, p.kernel_height, p.kernel_width, p.channels / p.options.groups};
    filter_ = noise(filter, what.dtypes().out == what.dtype ? what.dtype : DType::f32, 1);
    const auto bytes = static_cast<std::size_t>(image.numel() + result.numel()) * size_of(what.dtype);
    sets_.resize(std::clamp<std::size_t>(spread / bytes, 1, kMostSets));
    for (Set& set : sets_) set = {noise(image, what.dtype, 2), noise(result, what.dtype, 3)};
  }

  void call() {
    const Set& set = sets_[next_++ % sets_.size()];
    const auto& options = what_.problem.options;
    switch (what_.pass) {
      case Pass::forward:
        filter_.storage()->bump_version();
        return cpu::backend().conv().conv2d(set.x, filter_, {}, set.y, options);
      case Pass::input_gradient:
        filter_.storage()->bump_version();
        return cpu::backend().conv().conv2d_input_gradient(set.y, filter_, set.x, options, accumulate_);
      case Pass::filter_gradient:
        return cpu::backend().conv().conv2d_filter_gradient(set.x, set.y, filter_, options, accumulate_);
    }
  }

 private:
  struct Set {
    Tensor x, y;
  };
  static Tensor noise(const Shape& shape, DType dtype, std::uint64_t seed) {
    const Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
    cpu::backend().random().random_uniform({.seed = seed}, tensor, -1.0, 1.0);
    return tensor;
  }

  Case what_;
  bool accumulate_;
  Tensor filter_;
  std::vector<Set> sets_;
  std::size_t next_ = 0;
};

// Whether there are no names, or this one is among them.
template <class Names>
bool among(const Names& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

// Wall time, or processor time of all threads.
double now(bool processor) {
  timespec time{};
  clock_gettime(processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(Operands& operands, std::int64_t calls, bool processor) {
  const double start = now(processor);
  for (std::int64_t i = 0; i < calls; ++i) operands.call();
  return now(processor) - start;
}

Result measure(const Case& what, const Options& options) {
  const cpu::ConvMachine machine = cpu::conv_machine();
  const auto dtypes = what.dtypes();
  Result result{
      what, {}, choose_convolution(what.pass, what.problem, dtypes, options.accumulate, machine).algorithm};
  Operands operands(what, options.accumulate, static_cast<std::size_t>(options.spread) << 20);
  for (const ConvAlgorithm algorithm : kAlgorithms) {
    if (algorithm == ConvAlgorithm::generic && !options.generic && result.chosen != algorithm) continue;
    if (algorithm != result.chosen && !among(options.algorithms, cpu::name_of(algorithm))) continue;
    if (!convolution_by(algorithm, what.pass, what.problem, dtypes, options.accumulate, machine)) continue;
    const cpu::ForcedConvolution forced(algorithm);
    Measured measured{.algorithm = algorithm, .implementation = {}};
    {
      cpu::ConvolutionTrace trace;
      operands.call();
      measured.implementation = trace.take().at(0);
    }
    const double once = std::max(1e-9, seconds_of(operands, 1, options.processor));
    measured.calls = std::max<std::int64_t>(1, static_cast<std::int64_t>(1e-3 * options.milliseconds / once));
    result.measured.push_back(measured);
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (Measured& measured : result.measured) {
      const cpu::ForcedConvolution forced(measured.algorithm);
      const double seconds =
          seconds_of(operands, measured.calls, options.processor) / static_cast<double>(measured.calls);
      measured.seconds = std::min(measured.seconds, seconds);
    }
  }
  return result;
}

// ---- measurement

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (tandem::name_of(dtype) == name) return dtype;
  throw UserError("--dtype", name);  // the command line has checked it
}

std::vector<Case> cases_of(const Options& options) {
  std::vector<bench::Network> all;
  if (!options.shapes.empty()) {
    bench::Network given{"", {}};
    for (const std::string& shape : options.shapes)
      given.layers.push_back({bench::parse_convolution(shape), {1, 1, 1}});
    all.push_back(std::move(given));
  }
  if (options.shapes.empty() || !options.networks.empty()) {
    for (const bench::Network& network : bench::networks())
      if (among(options.networks, network.name)) all.push_back(network);
  }
  std::vector<Case> cases;
  for (const bench::Network& network : all) {
    for (const bench::Layer& layer : network.layers) {
      for (const std::string& dtype : options.dtypes) {
        for (std::size_t pass = 0; pass < kPasses.size(); ++pass) {
          if (layer.passes[pass] > 0 && among(options.passes, kPasses[pass]))
            cases.push_back({network.name, layer.problem, static_cast<Pass>(pass), dtype_named(dtype),
                             layer.passes[pass]});
        }
      }
    }
  }
  return cases;
}

// ---- report

class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  void begin() const {
    if (options_.json) return;
    fmt::print(
        "GFLOP/s of the definition, {}, {} threads, {}; × is the time of the chosen over the fastest's\n",
        cpu::name_of(cpu::level()), cpu::threads(), cpu::cpu_model());
    fmt::print("{:<22}{:<16}{:<5}", "shape", "pass", "dtype");
    for (const ConvAlgorithm algorithm : shown()) fmt::print("{:>10}", cpu::name_of(algorithm));
    fmt::print("  {:<10}{:<10}{:>5}\n", "fastest", "chosen", "×");
  }

  void add(Result result) {
    const Case& what = result.what;
    Sum& sum = sums_[{std::string(what.network), std::string(tandem::name_of(what.dtype))}];
    sum.chosen += what.count * result.picked().seconds;
    sum.fastest += what.count * result.fastest().seconds;
    if (!options_.json) fmt::print("{}\n", line(result));
    std::fflush(stdout);
    results_.push_back(std::move(result));
  }

  void finish() const {
    if (options_.json) {
      fmt::print("{}\n", json().dump(2));
      return;
    }
    fmt::print("\nmore than {:g} % slower than the fastest:\n", options_.tolerance);
    bool any = false;
    for (const Result& result : results_) {
      if (is_slow(result)) fmt::print("{}\n", line(result));
      any = any || is_slow(result);
    }
    if (!any) fmt::print("none\n");
    fmt::print("\n{:<12}{:<6}{:>12}{:>12}{:>8}\n", "in a step", "dtype", "chosen, ms", "fastest, ms", "×");
    for (const auto& [which, sum] : sums_)
      fmt::print("{:<12}{:<6}{:>12.3f}{:>12.3f}{:>8.3f}\n", which.first.empty() ? "given" : which.first,
                 which.second, 1e3 * sum.chosen, 1e3 * sum.fastest, sum.chosen / sum.fastest);
  }

 private:
  struct Sum {
    double chosen = 0.0, fastest = 0.0;
  };

  bool is_slow(const Result& result) const { return result.slowdown() > 1.0 + 1e-2 * options_.tolerance; }

  std::vector<ConvAlgorithm> shown() const {
    return {kAlgorithms.begin(), options_.generic ? kAlgorithms.end() : kAlgorithms.end() - 1};
  }

  std::string line(const Result& result) const {
    const Case& what = result.what;
    std::string text = fmt::format("{:<22}{:<16}{:<5}", bench::short_name(what.problem), name_of(what.pass),
                                   tandem::name_of(what.dtype));
    for (const ConvAlgorithm algorithm : shown()) {
      const auto found = std::ranges::find(result.measured, algorithm, &Measured::algorithm);
      const double rate = found != result.measured.end() ? 1e-9 * what.flop() / found->seconds : 0.0;
      text += rate > 0.0 ? fmt::format("{:>10.{}f}", rate, rate < 10.0 ? 1 : 0) : std::string(10, ' ');
    }
    return text + fmt::format("  {:<10}{:<10}{:>5.2f}", cpu::name_of(result.fastest().algorithm),
                              cpu::name_of(result.chosen), result.slowdown());
  }

  Json json() const {
    Json cases = Json::array(), sums = Json::array();
    for (const Result& result : results_) {
      const Case& what = result.what;
      Json algorithms = Json::object();
      for (const Measured& m : result.measured)
        algorithms[std::string(cpu::name_of(m.algorithm))] = {{"gflop_per_s", 1e-9 * what.flop() / m.seconds},
                                                              {"ms", 1e3 * m.seconds},
                                                              {"implementation", m.implementation}};
      cases.push_back({{"network", what.network},
                       {"shape", bench::short_name(what.problem)},
                       {"pass", name_of(what.pass)},
                       {"dtype", tandem::name_of(what.dtype)},
                       {"in_a_step", what.count},
                       {"algorithms", algorithms},
                       {"fastest", cpu::name_of(result.fastest().algorithm)},
                       {"chosen", cpu::name_of(result.chosen)},
                       {"chosen_over_fastest", result.slowdown()},
                       {"slow", is_slow(result)}});
    }
    for (const auto& [which, sum] : sums_)
      sums.push_back({{"network", which.first},
                      {"dtype", which.second},
                      {"chosen_ms", 1e3 * sum.chosen},
                      {"fastest_ms", 1e3 * sum.fastest},
                      {"chosen_over_fastest", sum.chosen / sum.fastest}});
    return {{"cpu", cpu::cpu_model()},
            {"level", cpu::name_of(cpu::level())},
            {"threads", cpu::threads()},
            {"tolerance_percent", options_.tolerance},
            {"cases", cases},
            {"steps", sums}};
  }

  const Options& options_;
  std::vector<Result> results_;
  std::map<std::pair<std::string, std::string>, Sum> sums_;
};

int run(const Options& options) {
  cpu::bound_threads();
  if (options.threads > 0) cpu::set_threads(options.threads);
  const std::vector<Case> cases = cases_of(options);
  Report report(options);
  report.begin();
  for (const Case& what : cases) report.add(measure(what, options));
  report.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> networks;
  for (const auto& network : bench::networks()) networks.emplace_back(network.name);
  CLI::App app(
      "Times each algorithm of the CPU's convolutions, and compares the chosen one with the fastest.\n"
      "TANDEM_ISA selects a lower level.");
  app.add_option("shape", options.shapes,
                 "such as 64>128@28k3s2b16: channels in and out, extent of the image, kernel, stride, batch; "
                 "p, d and g are padding, dilation and groups. Default: those of the networks");
  app.add_option("--network", options.networks, "layers of this network only; repeatable")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(networks));
  app.add_option("--pass", options.passes, "this pass only; repeatable")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(kPasses));
  std::vector<std::string> algorithms;
  for (const ConvAlgorithm algorithm : kAlgorithms) algorithms.emplace_back(cpu::name_of(algorithm));
  app.add_option("--algorithm", options.algorithms, "this algorithm and the chosen one only; repeatable")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(algorithms));
  app.add_option("--dtype", options.dtypes, "dtype of images and filters; repeatable")
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--threads", options.threads, "threads of the team; default: as in tandem")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "measurements per algorithm; the best counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--milliseconds", options.milliseconds, "length of a measurement, at least one call")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tolerance", options.tolerance,
                 "tolerated slowdown of the choice against the fastest, in per cent")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--accumulate", options.accumulate, "accumulate gradients");
  app.add_flag("--generic", options.generic, "also time im2col with a product");
  app.add_option("--spread", options.spread, "MB of images that calls use in turn; 1 keeps them in a cache")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_flag("--processor", options.processor,
               "measure processor time of all threads, which other processes disturb less than wall time");
  app.add_flag("--json", options.json, "print JSON, with the names of oneDNN's implementations");
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const UserError& error) {
    fmt::print(stderr, "bench_convolutions: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_convolutions: {}\n", error.what());
    return 1;
  }
}
