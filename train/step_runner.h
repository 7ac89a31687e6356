// StepRunner: the training step of a task on one device, micro-batch by micro-batch.
//
// Where the device records work, micro-batches of the full size, and the updates of full steps, are recorded
// after some ordinary steps and done from the recordings from then on; everything else is done the usual way,
// with the same bits. Micro-batches that count by their weight are not recorded where several make a step: a
// recording holds the weight.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "core/error.h"
#include "data/loader.h"
#include "nn/module.h"
#include "optim/recorded_step.h"
#include "optim/step.h"
#include "tasks/task.h"
#include "train/phases.h"

namespace tandem::train {

enum class GraphUse : std::uint8_t {
  automatic,  // where the device can, and goes on without where recording fails
  on,         // throws UserError where the device cannot
  off
};

struct StepRunnerOptions {
  Index batch_size = 0;  // of full micro-batches: those are recorded
  std::uint64_t seed = 0;
  // Random numbers are numbered by applied instead of attempted steps, so that a step that is done again
  // draws the same ones.
  bool number_by_applied = false;
  GraphUse graphs = GraphUse::automatic;
};

class StepRunner {
 public:
  // Everything is kept by reference. Throws UserError when graphs are on and cannot be had.
  StepRunner(tasks::Task& task, const amp::Plan& precision, optim::Step& step, PhaseTimer& phases,
             StepRunnerOptions options);

  // Forward, loss and backward of the micro-batch that is due.
  void backward(const datasets::Batch& batch);
  // Ends the step.
  void apply();

  // The loss of a batch with the random numbers of a certain step, under the precision of the run, outside of
  // any step: to look at one again.
  Tensor loss(const datasets::Batch& batch, int micro_batch, std::uint32_t step);

  // Whether steps are done from recordings by now; and why they will never be, where that was found out.
  bool recorded() const { return apply_ != nullptr; }
  const std::string& why_not_recorded() const { return why_not_; }

 private:
  Tensor forward(const datasets::Batch& batch, int micro_batch);
  double samples_of(const datasets::Batch& batch) const;
  bool may_record(const datasets::Batch& batch) const;
  void set_up_inputs(const datasets::Batch& batch);
  bool record(const datasets::Batch& batch);
  bool record_apply();
  void stop_recording(const VendorError& error);

  const amp::Plan& precision_;
  tasks::Task& task_;
  optim::Step& step_;
  PhaseTimer& phases_;
  const StepRunnerOptions options_;
  bool records_ = false;  // recordings are made, or will be
  std::string why_not_;
  int warm_steps_ = 0;      // ordinary steps so far
  datasets::Batch inputs_;  // what recordings read; absent before the first
  std::vector<std::unique_ptr<optim::RecordedBackward>> backwards_;  // by micro-batch
  std::unique_ptr<optim::RecordedApply> apply_;
};

}  // namespace tandem::train
