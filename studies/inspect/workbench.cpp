#include "studies/inspect/workbench.h"

#include <fmt/core.h>

#include "core/backend.h"
#include "core/error.h"
#include "core/random.h"
#include "runs/run_data.h"
#include "tasks/skipped_samples.h"
#include "train/evaluate.h"
#include "train/perturbation.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::train {

Workbench::Workbench(const config::Loaded& loaded, const runs::Weights& weights, Index batch_size)
    : loaded_(loaded),
      config_(loaded.config),
      batch_size_(batch_size > 0 ? batch_size : config_.data.batch_size) {
  tasks::DataPtr data;
  bool open = true;
  try {
    data = runs::open_data(
        config_, [](const std::string& reason) { tasks::warn_of_skipped(reason); }, weights.data, &notes_);
  } catch (const UserError& error) {
    if (weights.data.is_null()) throw;
    data = config::recall_data(config_, weights.data);
    open = false;
    notes_.push_back(fmt::format("the data cannot be read ({}); batches are noise", error.what()));
  }
  task_ = config::make_task(loaded, data);
  if (open) {
    loader_ = std::make_unique<datasets::Loader>(
        task_->training_source({}, batch_size_),
        datasets::Ahead{.threads = static_cast<int>(config_.data.workers)});
    held_out_ = std::make_unique<datasets::Loader>(task_->evaluation_source(task_->validation_split(), {}));
  }
  if (weights.path.empty()) {
    for (std::string& note : initialise_from(config_, *task_)) notes_.push_back(std::move(note));
    perturb(model(), static_cast<std::uint64_t>(config_.seed), config_.init_ulps);
    notes_.emplace_back("weights: initial weights");
  } else {
    if (open && !weights.data.is_null()) data->require_like(weights.data, weights.path);
    runs::load_weights(weights.path, model());
    notes_.push_back("weights: " + weights.path);
  }
  phases_ = task_->phases().size();
  model().train();
}

Workbench::~Workbench() = default;

datasets::Batch Workbench::next_batch() {
  ++served_;
  if (!loader_)
    return task_->synthetic_batch(batch_size_, static_cast<std::uint64_t>(config_.seed) + served_, {});
  auto batch = loader_->next();
  return batch ? *std::move(batch) : *loader_->next();
}

Tensor Workbench::loss(const datasets::Batch& batch, const amp::ResolvedPrecision& resolved,
                       std::uint32_t step, std::size_t phase) {
  const amp::Autocast autocast(resolved, phase);
  Tensor loss = loss_of_phase(*task_, phase, batch, {static_cast<std::uint64_t>(config_.seed), step});
  autocast.finish();
  return loss;
}

runs::Metrics Workbench::evaluate() {
  require(held_out_ != nullptr, "", "there is no data to evaluate on");
  return train::evaluate(*task_, *held_out_)->metrics();
}

std::unique_ptr<Learners> Workbench::make_learners(const amp::Precision& precision,
                                                   const std::optional<optim::Schedule>& schedule) {
  optim::StepOptions options = amp::step_options(precision, static_cast<std::uint64_t>(config_.seed));
  options.clip_norm = config_.clip_norm;
  options.clip_value = config_.clip_value;
  return std::make_unique<Learners>(*task_, loaded_, options,
                                    [&](double lr) { return schedule ? *schedule : optim::constant(lr); });
}

}  // namespace tandem::train
