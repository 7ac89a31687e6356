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
  batch_ = task_->made_up(size, static_cast<std::uint64_t>(config.seed), device_);
}

Tensor Subject::forward() {
  return train::loss_of_phase(*task_, 0, batch_, {.seed = static_cast<std::uint64_t>(loaded_.config.seed)});
}

void Subject::backward_and_update(const Tensor& loss) {
  optim::Step& step = *learners_->front().step;
  step.backward(loss, static_cast<double>(batch_.samples), learners_->front().first_loss);
  step.apply();
  learners_->end_iteration();
}

double Subject::step(const amp::Plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  Tensor loss;
  {
    const amp::Autocast autocast(plan);
    loss = forward();
    autocast.finish();
  }
  backward_and_update(loss);
  backend().synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tandem::planning
