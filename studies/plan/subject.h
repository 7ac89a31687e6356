// What is measured: the model of a configuration with its training step, on one made-up batch, as
// `tandem bench` has it.
#pragma once

#include <memory>
#include <vector>

#include "amp/autocast.h"
#include "config/task.h"
#include "train/learners.h"

namespace tandem::planning {

class Subject {
 public:
  // `precision` is what the step is prepared for: working copies, loss scale. Rates stay as they begin.
  Subject(const config::Loaded& loaded, const tasks::DataPtr& data, const amp::Precision& precision);

  nn::Module& model() { return task_->model(); }
  Backend& backend() const { return backend_for(device_); }
  Index samples() const { return batch_.samples; }

  // Forward and loss of a phase, in whatever precision is active.
  Tensor forward(std::size_t phase = 0);
  // What comes after it: the phase's own update.
  void backward_and_update(const Tensor& loss, std::size_t phase = 0);
  // What comes after the last phase, or after the one that is looked at by itself.
  void end() { learners_->end_iteration(); }
  // A whole step; seconds of each phase.
  std::vector<double> step(const amp::ResolvedPrecision& plan);

 private:
  const config::Loaded& loaded_;
  const Device device_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<train::Learners> learners_;
  datasets::Batch batch_;
};

}  // namespace tandem::planning
