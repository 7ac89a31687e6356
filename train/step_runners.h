// StepRunners: driver of a run's steps: a StepRunner for each phase, and the loss scale that phases share.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "train/step_pipeline.h"
#include "train/step_runner.h"

namespace tandem::train {

class StepRunners final : public StepDriver {
 public:
  // All references are kept. `reads_late`: outcomes are read only by waiting for them. Ranks on devices need
  // this to read them at the same point: an outcome may have arrived on some ranks and not on others.
  StepRunners(tasks::Task& task, Learners& learners, const amp::ResolvedPrecision& precision,
              StageTimer& stages, const StepRunnerOptions& options, bool reads_late);

  StepRunner& operator[](std::size_t phase) { return *runners_[phase]; }
  // Restarts the time measurement of all phases' next steps.
  void start_clock();

  tasks::CarriedState backward(std::size_t phase, const MicroBatch& micro_batch) override;
  Applied apply(std::size_t phase) override;
  std::optional<optim::StepReport> report(std::size_t phase, std::int64_t attempted, bool wait) override;
  void discard(std::size_t phase) override;

  // Replays a skipped step to find the first non-finite value; not collective.
  std::optional<amp::Overflow> find_overflow(const InFlightStep& step, const optim::StepReport& skipped);

 private:
  using Clock = std::chrono::steady_clock;

  void end_iteration();
  optim::Step& step(std::size_t phase) { return *learners_[phase].step; }

  tasks::Task& task_;
  Learners& learners_;
  const bool reads_late_;
  std::vector<std::unique_ptr<StepRunner>> runners_;
  std::size_t due_ = 0;                     // phase of the next step in the iteration
  std::vector<Clock::time_point> started_;  // by phase: when its last step ended
};

}  // namespace tandem::train
