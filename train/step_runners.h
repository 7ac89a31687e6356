// StepRunners: the driver of a run's steps, a StepRunner for each phase and the loss scale that phases share.
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
  // Everything is kept by reference. `reads_late`: an outcome is read by waiting for it alone: ranks on
  // devices read it in the same place, on some of which it has arrived by then, and on others not.
  StepRunners(tasks::Task& task, Learners& learners, const amp::ResolvedPrecision& precision,
              StageTimer& stages, const StepRunnerOptions& options, bool reads_late);

  StepRunner& operator[](std::size_t phase) { return *runners_[phase]; }
  // The seconds of every phase's next step count from now.
  void start_clock();

  tasks::CarriedState backward(std::size_t phase, const MicroBatch& micro_batch) override;
  Applied apply(std::size_t phase) override;
  std::optional<optim::StepReport> report(std::size_t phase, std::int64_t attempted, bool wait) override;
  void discard(std::size_t phase) override;

  // Replays a step that was skipped, by this rank alone: where it first had a value that is not finite.
  std::optional<amp::Overflow> find_overflow(const InFlightStep& step, const optim::StepReport& skipped);

 private:
  using Clock = std::chrono::steady_clock;

  void end_iteration();
  optim::Step& step(std::size_t phase) { return *learners_[phase].step; }

  tasks::Task& task_;
  Learners& learners_;
  const bool reads_late_;
  std::vector<std::unique_ptr<StepRunner>> runners_;
  std::size_t due_ = 0;                     // the phase whose step is next in the iteration
  std::vector<Clock::time_point> started_;  // by phase: when its last step ended
};

}  // namespace tandem::train
