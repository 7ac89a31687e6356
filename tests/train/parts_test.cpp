// A step of several parts has the gradient of one batch with all of them: micro-batches and shards, of each
// family, with parts of very different weights, including 0. tests/program/ranks_test.cpp covers ranks.
#include <algorithm>
#include <cmath>

#include "config/task.h"
#include "data/loader.h"
#include "parallel/one_process.h"
#include "parallel/shard_exchange.h"
#include "tests/support/uneven_data.h"
#include "train/learners.h"
#include "train/part_weights.h"
#include "train/setup.h"
#include "train/step_runner.h"

using namespace tandem;
using testing::distance;

namespace {

enum class Divided : std::uint8_t { not_at_all, micro_batches, shards, reproducible_shards };

struct Taken {
  std::vector<std::vector<double>> updates;  // of each phase
  std::vector<double> losses;
  std::vector<optim::PartWeight> weights;
};

std::vector<double> masters_of(const optim::Step& step) {
  return step.buffers().masters().to_vector<double>();
}

// The first step of a run, from the same weights in whatever parts its batch comes. Batch norm has its
// running statistics, since those of parts are others.
Taken step_of(const config::Loaded& loaded, const tasks::DataPtr& data, Divided how, int parts) {
  const auto task = config::make_task(loaded, data);
  const auto precision = train::resolve_precision(loaded, task->model());
  const bool divided = how != Divided::not_at_all, by_shards = divided && how != Divided::micro_batches;
  datasets::SourcePtr source = task->training_source({});
  optim::StepOptions options = train::step_options(loaded.config);
  options.accumulate = how == Divided::micro_batches ? parts : 1;
  options.unit = train::unit_of_parts(*task, source, by_shards ? parts : 1, options.accumulate);
  if (divided) source = source->divided({.parts = parts, .first = 0, .count = parts});
  parallel::OneProcess alone;
  const auto exchange =
      by_shards ? parallel::make_shard_exchange(alone, {.shards = parts,
                                                        .usual_samples = options.unit.value(),
                                                        .reproducible = how == Divided::reproducible_shards})
                : nullptr;
  options.shards = exchange.get();
  train::Learners learners(*task, loaded, options, [](double lr) { return optim::constant(lr); });
  train::StageTimer stages;
  task->model().eval();

  Taken taken;
  datasets::Loader loader(source);
  std::vector<datasets::Batch> batches;
  for (int i = 0; i < (divided ? parts : 1); ++i) batches.push_back(*loader.next());
  for (const datasets::Batch& batch : batches) taken.weights.push_back(train::part_weight(*task, batch));
  for (std::size_t phase = 0; phase < learners.size(); ++phase) {
    optim::Step& step = *learners[phase].step;
    train::StepRunner runner(*task, phase, learners[phase], *precision, stages, {.batch_size = 1, .seed = 3});
    const std::vector<double> before = masters_of(step);
    for (const datasets::Batch& batch : batches) {
      tasks::CarriedState carry;
      runner.backward(batch, carry);
    }
    runner.apply();
    taken.losses.push_back(step.synchronize().loss);
    CHECK(step.synchronize().applied == 1);
    std::vector<double> update = masters_of(step);
    for (std::size_t i = 0; i < update.size(); ++i) update[i] = before[i] - update[i];
    taken.updates.push_back(std::move(update));
  }
  learners.end_iteration();
  return taken;
}

void check_weights(const Taken& taken) {
  std::vector<double> counts;
  for (const optim::PartWeight& weight : taken.weights) counts.push_back(weight.count);
  std::ranges::sort(counts);
  const auto least = std::ranges::find_if(counts, [](double count) { return count > 0.0; });
  CHECK(counts.back() >= 10.0 * *least);
}

void check_parts(const testing::UnevenRun& run, const testing::TemporaryDirectory& directory,
                 const std::string& precision, double tolerance) {
  INFO(run.name << ", " << precision);
  const auto loaded =
      config::load(directory.write("config.json", run.config.dump()), {"precision=" + precision});
  const tasks::DataPtr data = config::open_data(loaded.config, {});
  const Taken whole = step_of(loaded, data, Divided::not_at_all, 1);
  for (const Divided how : {Divided::micro_batches, Divided::shards, Divided::reproducible_shards}) {
    INFO("divided " << static_cast<int>(how));
    const Taken parts = step_of(loaded, data, how, run.parts);
    if (run.differs) check_weights(parts);
    REQUIRE(parts.updates.size() == whole.updates.size());
    for (std::size_t phase = 0; phase < whole.updates.size(); ++phase) {
      CHECK(distance(parts.updates[phase], whole.updates[phase]) < tolerance);
      CHECK(parts.losses[phase] == Approx(whole.losses[phase]).epsilon(tolerance));
    }
  }
}

}  // namespace

// Gradients of activations have 11 bits in FP16, and parts round them apart; wrong weights are 0.2 and more
// away.
constexpr double kRounded = 1e-2;

TEST_CASE("a step is that of one batch, whatever the weights of its parts", "[parts]") {
  const testing::TemporaryDirectory directory;
  for (const testing::UnevenRun& run : testing::uneven_runs(directory)) {
    check_parts(run, directory, "fp32", 1e-6);
    check_parts(run, directory, R"({"level": "O1", "dtype": "fp16", "scaler": {"static": 64}})", kRounded);
  }
}

// Each part draws noise of its own, so that the whole batch has other noise.
TEST_CASE("shards of two networks have the step of as many micro-batches", "[parts]") {
  const config::Loaded loaded = config::load(
      "dcgan_fashion",
      {R"(data={"name": "fashion_mnist", "batch_size": 7, "train_size": 64})", "model.width=4",
       "model.noise=6", "precision=fp32",
       R"(optimizers={"discriminator": {"name": "sgd", "lr": 0.1}, "generator": {"name": "sgd", "lr": 0.1}})",
       "schedule=constant"});
  const tasks::DataPtr data = config::open_data(loaded.config, {});
  const Taken micro_batches = step_of(loaded, data, Divided::micro_batches, 3);
  const Taken shards = step_of(loaded, data, Divided::shards, 3);
  REQUIRE(shards.updates.size() == 2);
  for (std::size_t phase = 0; phase < 2; ++phase) {
    CHECK(distance(shards.updates[phase], micro_batches.updates[phase]) < 1e-6);
    CHECK(shards.losses[phase] == Approx(micro_batches.losses[phase]).epsilon(1e-6));
  }
}
