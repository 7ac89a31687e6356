// `tandem bench`: the training step alone, on one synthetic batch that stays on the device in the loader's
// format. With --serve also end to end, with batches from the loader. On an asynchronous device, steps are
// timed in blocks, so that the device never waits. With several ranks, it measures communication
// (studies/scaling).
#include "studies/scaling/bench.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "amp/autocast.h"
#include "cli/algorithm_file.h"
#include "cli/commands.h"
#include "cli/rank_deadline.h"
#include "config/task.h"
#include "core/backend.h"
#include "core/cpu/cpu_features.h"
#include "core/error.h"
#include "core/random.h"
#include "core/units.h"
#include "files/json_text.h"
#include "files/output.h"
#include "parallel/agreement.h"
#include "parallel/launch.h"
#include "runs/run_data.h"
#include "studies/compare/statistics.h"
#include "studies/profile/profile.h"
#include "tasks/skipped_samples.h"
#include "train/calibrate.h"
#include "train/ranges.h"
#include "train/setup.h"
#include "train/stages.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;
using compare::quantile;

struct Measured {
  std::int64_t items = 0;  // per step
  std::vector<double> step_ms;
  std::array<std::vector<double>, train::kStageNames.size()> stages_ms;
};

// By phase.
using Runners = std::vector<std::unique_ptr<train::StepRunner>>;

class Bench {
 public:
  explicit Bench(const config::Loaded& loaded)
      : loaded_(loaded), config_(loaded.config), device_(train::device_of(loaded.config)) {
    task_ = config::make_task(loaded, runs::describe_data(config_));
    nn::Module& model = task_->model();
    precision_ = train::resolve_precision(loaded, model);
    model.to(device_);
    learners_ = std::make_unique<train::Learners>(*task_, loaded, train::step_options(config_),
                                                  [](double lr) { return optim::constant(lr); });
    scale_ = std::make_unique<train::SyntheticScale>(train::SyntheticScale::find(loaded, device_), *task_,
                                                     *learners_);
    batch_ =
        task_->synthetic_batch(config_.data.batch_size, static_cast<std::uint64_t>(config_.seed), device_);
    runners_ = make_runners(host_stages_, train::graph_use(config_));
    timed_runners_ = make_runners(stages_, train::GraphUse::off);
    stages_.wait_for(backend_for(device_));
    if (ranges_) {
      ranges_->watch(host_stages_);
      ranges_->watch(stages_);
    }
  }

  Measured measure(std::int64_t warmup, std::int64_t steps) {
    for (std::int64_t i = 0; i < warmup; ++i) step(runners_, host_stages_);
    Measured measured{.items = batch_.samples * config_.accumulate};
    const std::int64_t block = backend_for(device_).records() ? kBlock : 1;
    for (std::int64_t i = 0; block > 1 && i < steps; i += block)
      measured.step_ms.push_back(1e3 * seconds_of(block) / static_cast<double>(block));
    const std::int64_t timed = block > 1 ? kBlock : steps;
    for (std::int64_t i = 0; i < timed; ++i) {
      stages_.clear();
      step(timed_runners_, stages_);
      if (block == 1) measured.step_ms.push_back(1e3 * stages_.total());
      for (std::size_t p = 0; p < train::kStageNames.size(); ++p)
        measured.stages_ms[p].push_back(1e3 * stages_.seconds(static_cast<train::Stage>(p)));
    }
    return measured;
  }

  // Profiles ordinary steps, without recordings.
  profile::Profile profile(std::int64_t steps) {
    constexpr std::int64_t kMost = 10;
    train::StageTimer stages;
    const Runners runners = make_runners(stages, train::GraphUse::off);
    std::int64_t update_bytes = 0;  // sum over phases
    for (const train::Learner& learner : *learners_) update_bytes += learner.step->update_bytes();
    return profile::measure(backend_for(device_), update_bytes / static_cast<std::int64_t>(learners_->size()),
                            stages, static_cast<int>(std::min(steps, kMost)), [&] { step(runners, stages); });
  }

  Device device() const { return device_; }
  double loss_scale() { return learners_->loss_scale(0); }  // waits for the device
  std::size_t segments() const { return scale_->segments(); }
  // Whether steps are replayed from recordings, and the device's reason if it cannot record.
  bool recorded() const {
    return std::all_of(runners_.begin(), runners_.end(),
                       [](const auto& runner) { return runner->recorded(); });
  }
  const std::string& why_not_recorded() const { return runners_.front()->why_not_recorded(); }

  // Times a block of steps from end to end. `from_loader`: batches of the data set are read, augmented and
  // moved to the device; else one synthetic batch is used.
  Json block(bool from_loader, std::int64_t steps) {
    if (from_loader && !loader_) {
      open_loader(loaded_);
      for (int i = 0; i < kLoaderWarmup; ++i) step(runners_, host_stages_, true);
    }
    const std::int64_t before = applied();
    items_ = 0;
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < steps; ++i) step(runners_, host_stages_, from_loader);
    const std::int64_t done = applied() - before;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {{"steps", steps}, {"applied", done}, {"items", items_ * done / steps}, {"seconds", seconds}};
  }

 private:
  static constexpr int kLoaderWarmup = 2;
  static constexpr std::int64_t kBlock = 10;  // steps that are timed together

  // Opens the data set; until then, it is only described.
  void open_loader(const config::Loaded& loaded) {
    const auto reader = config::make_task(
        loaded, runs::open_data(config_, [](const std::string& reason) { tasks::warn_of_skipped(reason); }));
    loader_ = std::make_unique<datasets::Loader>(
        reader->training_source(device_),
        datasets::Ahead{static_cast<int>(config_.data.workers), static_cast<int>(config_.data.prefetch)});
  }

  double seconds_of(std::int64_t steps) {
    backend_for(device_).synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < steps; ++i) step(runners_, host_stages_);
    backend_for(device_).synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  datasets::Batch next_batch(bool from_loader) {
    if (!from_loader) return batch_;
    auto batch = loader_->next();
    return batch ? *std::move(batch) : *loader_->next();  // the next epoch
  }

  // The minimum over phases of applied steps; waits for the device.
  std::int64_t applied() {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const train::Learner& learner : *learners_)
      least = std::min(least, learner.step->synchronize().applied);
    return least;
  }

  Runners make_runners(train::StageTimer& stages, train::GraphUse graphs) {
    Runners runners;
    for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
      runners.push_back(std::make_unique<train::StepRunner>(
          *task_, phase, (*learners_)[phase], *precision_, stages,
          train::StepRunnerOptions{.batch_size = batch_.samples,
                                   .seed = static_cast<std::uint64_t>(config_.seed),
                                   .graphs = graphs}));
      runners.back()->set_borders(scale_->borders());
    }
    carries_.resize(runners.size());
    return runners;
  }

  // An iteration: a step of each phase over the same batches.
  void step(const Runners& runners, train::StageTimer& stages, bool from_loader = false) {
    stages.start();
    stages.begin(train::Stage::data);
    std::vector<datasets::Batch> batches;
    for (std::int64_t micro = 0; micro < config_.accumulate; ++micro) {
      batches.push_back(next_batch(from_loader));
      items_ += batches.back().samples;
      stages.finish(train::Stage::data);
      runners.front()->backward(batches.back(), carries_.front());
      if (runners.size() == 1) batches.clear();
    }
    runners.front()->apply();
    for (std::size_t phase = 1; phase < runners.size(); ++phase) {
      for (const datasets::Batch& batch : batches) runners[phase]->backward(batch, carries_[phase]);
      runners[phase]->apply();
    }
    learners_->end_iteration();
  }

  const config::Loaded& loaded_;
  const config::Config& config_;
  const Device device_;
  std::unique_ptr<amp::ResolvedPrecision> precision_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<train::Learners> learners_;
  std::unique_ptr<train::SyntheticScale> scale_;
  datasets::Batch batch_;
  std::vector<tasks::CarriedState> carries_;  // by phase
  std::unique_ptr<datasets::Loader> loader_;
  std::int64_t items_ = 0;
  train::StageTimer stages_, host_stages_;  // waits for the device; does not wait, and is not read
  Runners runners_, timed_runners_;
  const std::unique_ptr<profile::Ranges> ranges_ = profile::ranges_if_asked(device_);
};

Json memory_json(Device device) {
  const MemoryFigures memory = backend_for(device).memory();
  Json kinds = Json::object();
  for (int kind = 0; kind < kMemoryKindCount; ++kind)
    kinds[std::string(name_of(static_cast<MemoryKind>(kind)))] =
        memory.peak_by_kind[static_cast<std::size_t>(kind)];
  return {{"peak_memory_bytes", memory.peak}, {"memory", kinds}};
}

// Answers every line of input with a line until the input ends. The first line says that the model is loaded,
// after the warmup steps. The caller may end this process at any time, so algorithm choices are saved before
// each answer.
void serve(Bench& bench, AlgorithmFile& algorithms, std::int64_t warmup) {
  const auto answer = [](const Json& json) {
    output::print("{}\n", files::json_text(json));
    output::flush_result();
  };
  if (warmup > 0) bench.measure(warmup, 1);
  algorithms.save();
  answer({{"ready", true}});
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "memory") {
      answer(memory_json(bench.device()));
      continue;
    }
    const std::size_t space = line.find(' ');
    const std::string mode = line.substr(0, space);
    const long steps = space == std::string::npos ? 0 : std::strtol(line.c_str() + space, nullptr, 10);
    require((mode == "compute" || mode == "loader") && steps > 0, "",
            "bench --serve: expected \"compute N\", \"loader N\" or \"memory\", got \"{}\"", line);
    const Json block = bench.block(mode == "loader", steps);
    algorithms.save();
    answer(block);
  }
}

Json as_json(const config::Loaded& loaded, const Measured& measured, Bench& bench) {
  const auto& config = loaded.config;
  const Json memory = memory_json(bench.device());
  Json stages = Json::object();
  for (std::size_t p = 0; p < train::kStageNames.size(); ++p)
    stages[train::kStageNames[p]] = quantile(measured.stages_ms[p], 0.5);
  const double median = quantile(measured.step_ms, 0.5);
  return {{"config", config.name},
          {"precision", config.precision.label()},
          {"device", to_string(bench.device())},
          {"threads", cpu::threads()},
          {"batch_size", config.data.batch_size},
          {"loss_scale", bench.loss_scale()},
          {"segments", bench.segments()},
          {"items_per_s", 1e3 * static_cast<double>(measured.items) / median},
          {"step_ms",
           {{"median", median},
            {"p10", quantile(measured.step_ms, 0.1)},
            {"p90", quantile(measured.step_ms, 0.9)}}},
          {"steps", measured.step_ms.size()},
          {"peak_memory_bytes", memory["peak_memory_bytes"]},
          {"memory", memory["memory"]},
          {"recorded", bench.recorded()},
          {"why_not_recorded", bench.why_not_recorded()},
          {"phases_ms", stages}};
}

void print_text(const Json& result) {
  output::print("{}, {}, {}, {} threads, batch {}\n", result["config"].get<std::string>(),
                result["precision"].get<std::string>(), result["device"].get<std::string>(),
                result["threads"].get<int>(), result["batch_size"].get<std::int64_t>());
  const auto& step = result["step_ms"];
  const double median = step["median"].get<double>();
  output::print("{:<12}{:.1f} items/s\n", "rate", result["items_per_s"].get<double>());
  output::print("{:<12}{:.2f} ms (p10 {:.2f}, p90 {:.2f}, {} steps)\n", "step", median,
                step["p10"].get<double>(), step["p90"].get<double>(), result["steps"].get<std::int64_t>());
  for (const auto& [stage, ms] : result["phases_ms"].items())
    output::print("  {:<10}{:.2f} ms, {:.1f} %\n", stage, ms.get<double>(),
                  100.0 * ms.get<double>() / median);
  if (const double scale = result["loss_scale"].get<double>(); scale != 1.0) {
    const int segments = result["segments"].get<int>();
    output::print("{:<12}{}{}\n", "loss scale", scale,
                  segments > 1 ? fmt::format(", {} segments", segments) : "");
  }
  if (const auto why = result["why_not_recorded"].get<std::string>(); !why.empty())
    output::print("{:<12}no: {}\n", "recorded", why);
  output::print("{:<12}{}\n", "peak memory", bytes_text(result["peak_memory_bytes"].get<double>()));
  for (const auto& [kind, bytes] : result["memory"].items()) {
    if (bytes.get<double>() > 0.0) output::print("  {:<12}{}\n", kind, bytes_text(bytes.get<double>()));
  }
}

void print_ranks(const Json& result) {
  const auto number = [&](const char* key) { return result[key].get<double>(); };
  const auto& ms = result["step_ms"];
  const auto line = [](const char* label, const std::string& text) {
    output::print("{:<16}{}\n", label, text);
  };
  output::print("{}, {}, {} ranks of {} threads, {} shards of a batch of {}\n",
                result["config"].get<std::string>(), result["precision"].get<std::string>(),
                result["ranks"].get<int>(), result["threads"].get<int>(), result["shards"].get<int>(),
                result["batch_size"].get<std::int64_t>());
  line("rate", fmt::format("{:.1f} items/s", number("items_per_s")));
  line("step", fmt::format("{:.2f} ms", ms["together"].get<double>()));
  line("  no all-reduce", fmt::format("{:.2f} ms: {:.1f} % of a step is communication",
                                      ms["apart"].get<double>(), 100.0 * number("exposed")));
  line("  single rank",
       fmt::format("{:.2f} ms: efficiency {:.1f} %", ms["one"].get<double>(), 100.0 * number("efficiency")));
  line("all-reduce", fmt::format("{:.1f} us per hop, {:.2f} GB/s", result["link"]["latency_us"].get<double>(),
                                 result["link"]["gb_per_s"].get<double>()));
  line("gradients", bytes_text(number("gradient_bytes")));
  for (const Json& at : result["predicted"])
    line(fmt::format("  {} H100s", at["gpus"].get<int>()).c_str(),
         fmt::format(
             "{:.2f} ms per all-reduce; steps of at least {:.1f} ms lose less than a tenth, without overlap",
             at["all_reduce_ms"].get<double>(), at["least_step_ms"].get<double>()));
}

// Benchmark of several ranks; the first one prints.
int bench_by_ranks(const BenchArguments& arguments, parallel::Communicator& ranks, double deadline_s) {
  try {
    auto loaded = parallel::together(ranks, deadline_s, [&] {
      require(!arguments.serve && !arguments.profile && arguments.algorithms.empty(), "",
              "bench: --serve, --profile and --algorithms work in one process, and mpirun started {}",
              ranks.size());
      return config::load(arguments.config, arguments.overrides);
    });
    deadline_s = loaded.config.parallel.deadline_s;
    if (loaded.config.parallel.per_rank) loaded.config.data.batch_size *= ranks.size();
    train::prepare_machine(loaded);
    if (!loaded.config.threads) train::share_cpus(ranks, deadline_s);
    const Json result =
        scaling::bench_ranks(loaded, ranks, {.steps = arguments.steps, .warmup = arguments.warmup});
    if (ranks.rank() != 0) return 0;
    if (arguments.json) {
      output::print("{}\n", files::json_text(result));
    } else {
      print_ranks(result);
    }
    return 0;
  } catch (const parallel::AgreedError& error) {
    if (ranks.rank() == 0) output::print_error(error.what());
    return error.users_mistake() ? kExitUsage : kExitFailure;
  } catch (const std::exception& error) {
    ranks.abort(error.what(), kExitFailure);
  }
  return kExitFailure;  // not reached
}

}  // namespace

int bench(const BenchArguments& arguments) {
  const double deadline_s = deadline_at_start(arguments.config, arguments.overrides);
  const std::unique_ptr<parallel::Communicator> ranks =
      parallel::open_communicator({.deadline_s = deadline_s});
  if (ranks->size() > 1) return bench_by_ranks(arguments, *ranks, deadline_s);
  const config::Loaded loaded = config::load(arguments.config, arguments.overrides);
  train::prepare_machine(loaded);
  AlgorithmFile algorithms(loaded.config, train::device_of(loaded.config), arguments.algorithms);
  Bench bench(loaded);
  if (arguments.serve) {
    serve(bench, algorithms, arguments.warmup);
    return 0;
  }
  Json result = as_json(loaded, bench.measure(arguments.warmup, arguments.steps), bench);
  if (!arguments.json) print_text(result);
  if (arguments.profile) {
    const profile::Profile profile = bench.profile(arguments.steps);
    if (arguments.json) {
      result["profile"] = profile::to_json(profile);
    } else {
      profile::print(profile);
    }
  }
  if (Json chosen = algorithms.to_json(); !chosen.empty()) result["algorithms"] = std::move(chosen);
  if (arguments.json) output::print("{}\n", files::json_text(result));
  algorithms.save();
  return 0;
}

}  // namespace tandem::cli
