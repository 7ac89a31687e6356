// A small training setup on the device under test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/task.h"
#include "core/backend.h"
#include "core/shapes_backend.h"
#include "data/loader.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::test {

inline Backend& backend_under_test() { return backend_for(test_device()); }

// Timing may decide.
inline constexpr ComputeRules kTimed{.allow_tf32 = false};

// The rules of the backend under test, back to those of all tests (catch_main.cpp) when this goes.
struct RulesScope {
  explicit RulesScope(const ComputeRules& rules) { backend_under_test().set_rules(rules); }
  ~RulesScope() {
    backend_under_test().set_rules({.allow_tf32 = false, .deterministic = true, .autotune = false});
  }
  RulesScope(const RulesScope&) = delete;
  RulesScope& operator=(const RulesScope&) = delete;
};

// A task's model and Step, and a runner of its steps; over data as it is described, unless it is given.
struct Setup {
  Setup(const config::Loaded& configuration, train::GraphUse graphs)
      : Setup(configuration, config::describe_data(configuration.config), graphs) {}
  Setup(config::Loaded configuration, const tasks::DataPtr& data, train::GraphUse graphs)
      : loaded(std::move(configuration)) {
    task = config::make_task(loaded, data);
    model = &task->model();
    plan = train::resolve_precision(loaded, *model);
    model->to(test_device());
    learners = std::make_unique<train::Learners>(
        *task, loaded, train::step_options(loaded.config),
        [&](double lr) { return train::make_schedule(loaded.config, lr, 10, 20); });
    step = learners->front().step.get();
    const Index samples = task->synthetic_batch(loaded.config.data.batch_size, 0, kShapes).samples;
    runner = std::make_unique<train::StepRunner>(
        *task, 0, learners->front(), *plan, stages,
        train::StepRunnerOptions{.batch_size = samples, .seed = 5, .graphs = graphs});
  }

  std::vector<std::pair<std::string, std::vector<double>>> state() {
    std::vector<std::pair<std::string, std::vector<double>>> values;
    for (const auto& [name, tensor] : step->state()) values.emplace_back(name, tensor.to_vector<double>());
    return values;
  }

  config::Loaded loaded;
  std::unique_ptr<amp::ResolvedPrecision> plan;
  std::unique_ptr<tasks::Task> task;
  nn::Module* model = nullptr;
  std::unique_ptr<train::Learners> learners;
  optim::Step* step = nullptr;
  tasks::CarriedState carry;
  train::StageTimer stages;
  std::unique_ptr<train::StepRunner> runner;
};

// Batches of noise, and a model with batch norm and dropout.
struct Training : Setup {
  explicit Training(const std::vector<std::string>& overrides,
                    train::GraphUse graphs = train::GraphUse::automatic)
      : Setup(config::load("resnet20_synthetic", with_small_model(overrides)), graphs) {}

  static std::vector<std::string> with_small_model(std::vector<std::string> overrides) {
    overrides.insert(
        overrides.begin(),
        {
            R"(model={"layers": [{"type": "conv2d", "out_channels": 8, "kernel": 3, "padding": "same", "bias": false},
                             {"type": "batch_norm"}, {"type": "relu"}, {"type": "dropout", "p": 0.3},
                             {"type": "flatten"}, {"type": "linear", "out_features": 10}]})",
            "data.batch_size=6", "data.image_size=8", "data.channels=3"});
    return overrides;
  }

  // Batch number `n`, of `size` samples.
  static datasets::Batch batch(std::uint64_t n, Index size = 6) {
    std::vector<std::int64_t> labels;
    for (Index i = 0; i < size; ++i) labels.push_back((i + static_cast<Index>(n)) % 10);
    return {{{"image", random_tensor({size, 8, 8, 3}, DType::f32, 100 + n)},
             {"label", Tensor::from(labels, {size}, test_device())}},
            size};
  }

  // One step over batches numbered from `first`; its report.
  optim::StepReport run(std::uint64_t first, std::vector<Index> sizes = {6}) {
    for (const Index size : sizes) runner->backward(batch(first++, size), carry);
    runner->apply();
    return step->synchronize();
  }
};

}  // namespace tandem::test
