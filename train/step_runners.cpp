#include "train/step_runners.h"

#include <algorithm>
#include <utility>

namespace tandem::train {

StepRunners::StepRunners(tasks::Task& task, Learners& learners, const amp::ResolvedPrecision& precision,
                         StageTimer& stages, const StepRunnerOptions& options, bool reads_late)
    : task_(task), learners_(learners), reads_late_(reads_late), started_(learners.size()) {
  for (std::size_t phase = 0; phase < learners.size(); ++phase)
    runners_.push_back(
        std::make_unique<StepRunner>(task, phase, learners[phase], precision, stages, options));
  start_clock();
}

void StepRunners::start_clock() { std::ranges::fill(started_, Clock::now()); }

void StepRunners::end_iteration() {
  learners_.end_iteration();
  due_ = 0;
}

// A step that is retried before the later phases had theirs ends the iteration: the shared scale is updated.
tasks::CarriedState StepRunners::backward(std::size_t phase, const MicroBatch& micro_batch) {
  if (phase < due_) end_iteration();
  tasks::CarriedState carry = micro_batch.carry;
  runners_[phase]->backward(micro_batch.batch, carry, micro_batch.samples);
  return carry;
}

StepDriver::Applied StepRunners::apply(std::size_t phase) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(started_[phase], now)).count();
  runners_[phase]->apply();
  due_ = phase + 1;
  if (due_ == learners_.size()) end_iteration();
  return {.attempted = step(phase).attempted(), .iteration = learners_.iterations(), .seconds = seconds};
}

std::optional<optim::StepReport> StepRunners::report(std::size_t phase, std::int64_t attempted, bool wait) {
  if (!wait && (reads_late_ || !step(phase).arrived())) return {};
  return step(phase).report_of(attempted);
}

void StepRunners::discard(std::size_t phase) { step(phase).clear(); }

std::optional<amp::Overflow> StepRunners::find_overflow(const InFlightStep& skipped_step,
                                                        const optim::StepReport& skipped) {
  std::vector<std::size_t> calls;  // of parts with samples
  for (std::size_t i = 0; i < skipped_step.micro_batches.size(); ++i)
    if (skipped_step.micro_batches[i].batch.samples > 0) calls.push_back(i);
  const auto loss = [&](int i) {
    const std::size_t call = calls[static_cast<std::size_t>(i)];
    const MicroBatch& micro_batch = skipped_step.micro_batches[call];
    return runners_[skipped_step.phase]->loss_again(micro_batch.batch, micro_batch.carry,
                                                    static_cast<int>(call), skipped);
  };
  const auto found =
      amp::find_overflow(task_.model(), static_cast<int>(calls.size()), loss, skipped.loss_scale);
  discard(skipped_step.phase);
  return found;
}

}  // namespace tandem::train
