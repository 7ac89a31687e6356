#include "studies/scaling/bench.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/task.h"
#include "core/backend.h"
#include "core/cpu/cpu_features.h"
#include "core/error.h"
#include "runs/run_data.h"
#include "studies/compare/statistics.h"
#include "studies/scaling/model.h"
#include "train/calibrate.h"
#include "train/learners.h"
#include "train/part_weights.h"
#include "train/process_group.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::scaling {

namespace {

using compare::quantile;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// A model with its training step, on this rank's shards of a synthetic batch.
class Side {
 public:
  // `exchange`, `peers`: null without communication. `scale`: see train::SyntheticScale.
  Side(const config::Loaded& loaded, const train::ProcessGroup& ranks, Device device,
       const std::string& scale, optim::ShardExchange* exchange, parallel::RankPeers* peers)
      : config_(loaded.config), device_(device), own_(static_cast<int>(ranks.own())) {
    task_ = config::make_task(loaded, runs::describe_data(config_));
    precision_ = train::resolve_precision(loaded, task_->model());
    task_->model().to(device);
    optim::StepOptions options = train::step_options(config_);
    options.shards = exchange;
    const Index shard = ranks.division().most(config_.data.batch_size);
    for (int i = 0; i < own_; ++i)
      batches_.push_back(task_->synthetic_batch(
          shard, static_cast<std::uint64_t>(config_.seed + ranks.rank() * own_ + i), device));
    options.unit = train::part_weight(*task_, task_->synthetic_batch(shard, 0, device)).divisor;
    if (!exchange) options.accumulate *= own_;
    if (exchange && ranks.update_parts() > 1) {
      options.update_parts = ranks.update_parts();
      options.own_part = ranks.rank();
    }
    learners_ = std::make_unique<train::Learners>(*task_, loaded, options,
                                                  [](double lr) { return optim::constant(lr); });
    scale_ = std::make_unique<train::SyntheticScale>(scale, *task_, *learners_);
    for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
      runners_.push_back(std::make_unique<train::StepRunner>(
          *task_, phase, (*learners_)[phase], *precision_, stages_,
          train::StepRunnerOptions{.batch_size = batches_.front().samples,
                                   .seed = static_cast<std::uint64_t>(config_.seed),
                                   .graphs = train::graph_use(config_),
                                   .peers = peers}));
      runners_.back()->set_borders(scale_->borders());
    }
    carries_.assign(runners_.size(), std::vector<tasks::CarriedState>(batches_.size()));
  }

  double run(std::int64_t steps) {
    backend_for(device_).synchronize();
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < steps; ++i) step();
    backend_for(device_).synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  double gradients() const {
    double count = 0.0;
    for (std::size_t phase = 0; phase < learners_->size(); ++phase)
      count += static_cast<double>((*learners_)[phase].step->buffers().length());
    return count;
  }
  std::int64_t samples() const {  // of one shard
    return batches_.front().samples * config_.accumulate;
  }

 private:
  void step() {
    for (std::size_t phase = 0; phase < runners_.size(); ++phase) {
      for (std::int64_t micro = 0; micro < config_.accumulate; ++micro)
        for (std::size_t i = 0; i < batches_.size(); ++i)
          runners_[phase]->backward(batches_[i], carries_[phase][i], 1.0);
      runners_[phase]->apply();
    }
    learners_->end_iteration();
  }

  const config::Config& config_;
  const Device device_;
  const int own_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<amp::ResolvedPrecision> precision_;
  std::unique_ptr<train::Learners> learners_;
  std::unique_ptr<train::SyntheticScale> scale_;
  train::StageTimer stages_;
  std::vector<std::unique_ptr<train::StepRunner>> runners_;
  std::vector<datasets::Batch> batches_;
  std::vector<std::vector<tasks::CarriedState>> carries_;  // by phase and shard
};

// Scope that stops the devices from waiting for other ranks after an exception.
struct Abandonment {
  train::ProcessGroup& ranks;
  const int exceptions = std::uncaught_exceptions();
  ~Abandonment() {
    if (std::uncaught_exceptions() > exceptions) ranks.abandon_devices();
  }
};

// Best times of all-reduces of growing sizes, between devices if ranks compute on devices.
std::vector<Sample> measured_samples(parallel::Communicator& ranks, parallel::DeviceCommunicator* devices,
                                     double deadline_s) {
  constexpr int kRepeats = 7;
  std::vector<Sample> samples;
  for (const std::size_t count : {1u << 10, 1u << 13, 1u << 16, 1u << 19, 1u << 22}) {
    std::vector<float> values(devices ? 0 : count, 1.0f);
    const Tensor on_device = devices ? Tensor::zeros({static_cast<Index>(count)},
                                                     {DType::f32, devices->device(), MemoryKind::workspace})
                                     : Tensor();
    const auto reduce = [&] {
      if (!devices) return ranks.all_reduce(values, parallel::Reduction::sum, deadline_s);
      devices->all_reduce(parallel::Elements(on_device.raw(), count, DType::f32), parallel::Reduction::sum);
      devices->pending().wait(deadline_s);
    };
    double best = 0.0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      ranks.barrier(deadline_s);
      const auto start = Clock::now();
      reduce();
      const double seconds = ranks.all_reduce_value(
          std::chrono::duration<double>(Clock::now() - start).count(), parallel::Reduction::max, deadline_s);
      best = repeat == 0 ? seconds : std::min(best, seconds);
      std::ranges::fill(values, 1.0f);
    }
    samples.push_back({static_cast<double>(count * sizeof(float)), best});
  }
  return samples;
}

Json predictions(double bytes) {
  constexpr double kShare = 0.9;
  Json predicted = Json::array();
  for (const int gpus : {8, 64, 512}) {
    const double seconds = all_reduce_seconds(h100_cluster(), gpus, bytes);
    predicted.push_back({{"gpus", gpus},
                         {"all_reduce_ms", 1e3 * seconds},
                         {"least_step_ms", 1e3 * least_step_seconds(seconds, kShare)}});
  }
  return predicted;
}

}  // namespace

Json bench_ranks(const config::Loaded& loaded, parallel::Communicator& communicator,
                 const BenchOptions& options) {
  const config::Config& config = loaded.config;
  train::ProcessGroup ranks(&communicator, config.parallel, config.data.batch_size);
  const double deadline_s = ranks.deadline_s();
  const Device device = ranks.together([&] { return train::device_of(config); });
  const auto exchange = ranks.together([&] { return ranks.exchange(1.0, device); });
  const auto peers = ranks.batch_norm_peers();
  ranks.join_devices();
  const std::string found = ranks.together(
      [&] { return ranks.first() ? train::SyntheticScale::find(loaded, device) : std::string(); });
  const std::string scale = ranks.text_of_first([&] { return found; });
  Side together(loaded, ranks, device, scale, exchange.get(), peers.get()),
      apart(loaded, ranks, device, scale, nullptr, nullptr);
  const Abandonment abandonment{ranks};
  const auto slowest = [&](double seconds) {
    return communicator.all_reduce_value(seconds, parallel::Reduction::max, deadline_s);
  };
  // Seconds per step of a block.
  const auto timed = [&](Side& side, bool takes_part) {
    constexpr std::int64_t kBlock = 3;
    communicator.barrier(deadline_s);
    return slowest(takes_part ? side.run(kBlock) : 0.0) / static_cast<double>(kBlock);
  };
  together.run(options.warmup);
  apart.run(options.warmup);
  std::vector<double> of_all, of_each, of_one;
  for (std::int64_t step = 0; step < options.steps; step += 3) {
    of_all.push_back(timed(together, true));
    of_each.push_back(timed(apart, true));
    of_one.push_back(timed(apart, ranks.first()));
  }
  const double step = quantile(of_all, 0.5), each = quantile(of_each, 0.5), one = quantile(of_one, 0.5);
  const double bytes = together.gradients() * (config.parallel.wire == "fp32" ? 4.0 : 2.0);
  const Link link = fitted(ranks.size(), measured_samples(communicator, ranks.devices(), deadline_s));
  return {{"config", config.name},
          {"precision", config.precision.label()},
          {"device", to_string(device)},
          {"ranks", ranks.size()},
          {"shards", ranks.shards()},
          {"threads", cpu::threads()},
          {"batch_size", config.data.batch_size},
          {"step_ms", {{"together", 1e3 * step}, {"apart", 1e3 * each}, {"one", 1e3 * one}}},
          {"items_per_s", static_cast<double>(together.samples() * ranks.shards()) / step},
          {"exposed", 1.0 - each / step},
          {"efficiency", one / step},
          {"gradient_bytes", bytes},
          {"link", {{"latency_us", 1e6 * link.latency_s}, {"gb_per_s", 1e-9 * link.bytes_per_s}}},
          {"predicted", predictions(bytes)}};
}

}  // namespace tandem::scaling
