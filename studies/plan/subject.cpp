#include "studies/plan/subject.h"

#include <chrono>

#include "core/backend.h"
#include "train/setup.h"
#include "train/step_runner.h"

namespace tandem::planning {

Subject::Subject(const config::Loaded& loaded, const tasks::DataPtr& data, const amp::Precision& precision)
    : loaded_(loaded), device_(train::device_of(loaded.config)), task_(config::make_task(loaded, data)) {
  const config::Config& config = loaded.config;
  train::freeze_parameters(config, task_->model());
  task_->model().to(device_);
  optim::StepOptions options = amp::step_options(precision, static_cast<std::uint64_t>(config.seed));
  options.clip_norm = config.clip_norm;
  options.clip_value = config.clip_value;
  learners_ = std::make_unique<train::Learners>(*task_, loaded, options,
                                                [](double lr) { return optim::constant(lr); });
  Index size = config.data.batch_size;
  if (data->training_samples() > 0) size = std::min(size, data->training_samples());
  batch_ = task_->synthetic_batch(size, static_cast<std::uint64_t>(config.seed), device_);
}

Tensor Subject::forward(std::size_t phase) {
  return train::loss_of_phase(*task_, phase, batch_,
                              {.seed = static_cast<std::uint64_t>(loaded_.config.seed)});
}

void Subject::backward_and_update(const Tensor& loss, std::size_t phase) {
  train::Learner& learner = (*learners_)[phase];
  learner.step->backward(loss, static_cast<double>(batch_.samples), learner.first_loss);
  learner.step->apply();
}

std::vector<double> Subject::step(const amp::ResolvedPrecision& resolved) {
  std::vector<double> seconds;
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    const auto start = std::chrono::steady_clock::now();
    Tensor loss;
    {
      const amp::Autocast autocast(resolved, phase);
      loss = forward(phase);
      autocast.finish();
    }
    backward_and_update(loss, phase);
    if (phase + 1 == learners_->size()) end();
    backend().synchronize();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return seconds;
}

}  // namespace tandem::planning
