// Subject of measurements: a configuration's model with its training step, on a synthetic batch, as in
// `tandem bench`.
#pragma once

#include <memory>
#include <vector>

#include "amp/autocast.h"
#include "config/task.h"
#include "train/learners.h"

namespace tandem::planning {

class Subject {
 public:
  // `precision` sets working copies and loss scale. Learning rates are constant.
  Subject(const config::Loaded& loaded, const tasks::DataPtr& data, const amp::Precision& precision);

  nn::Module& model() { return task_->model(); }
  Backend& backend() const { return backend_for(device_); }
  Index samples() const { return batch_.samples; }

  // Forward and loss of a phase, in the active precision.
  Tensor forward(std::size_t phase = 0);
  // Backward and update of the phase.
  void backward_and_update(const Tensor& loss, std::size_t phase = 0);
  // Ends the iteration, after the last measured phase.
  void end() { learners_->end_iteration(); }
  // Runs a whole step; returns the seconds of each phase.
  std::vector<double> step(const amp::ResolvedPrecision& resolved);

 private:
  const config::Loaded& loaded_;
  const Device device_;
  std::unique_ptr<tasks::Task> task_;
  std::unique_ptr<train::Learners> learners_;
  datasets::Batch batch_;
};

}  // namespace tandem::planning
