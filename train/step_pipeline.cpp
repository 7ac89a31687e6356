#include "train/step_pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace tandem::train {

using State = InFlightStep::State;

StepPipeline::StepPipeline(StepDriver& driver, StepListener& listener, RetryPolicy policy,
                           std::vector<std::vector<tasks::CarriedState>> carries)
    : driver_(driver),
      listener_(listener),
      policy_(policy),
      carries_(std::move(carries)),
      newest_(carries_.size()) {}

void StepPipeline::run(std::size_t phase, const MicroBatch& micro_batch) {
  carries_[phase][micro_batch.shard] = driver_.backward(phase, micro_batch);
}

void StepPipeline::add(std::size_t phase, MicroBatch micro_batch) {
  micro_batch.carry = carries_[phase][micro_batch.shard];
  run(phase, micro_batch);
  if (!gathers()) steps_.push_back({.phase = phase});
  InFlightStep& step = steps_.back();
  ensure(step.phase == phase, "steps", "a micro-batch of phase {} while phase {} gathers", phase, step.phase);
  step.samples += micro_batch.samples;
  if (policy_.resolves) step.micro_batches.push_back(std::move(micro_batch));
  resolve(true);
}

void StepPipeline::apply(InFlightStep& step) {
  const StepDriver::Applied applied = driver_.apply(step.phase);
  step.attempted = newest_[step.phase] = applied.attempted;
  step.iteration = applied.iteration;
  step.seconds += applied.seconds;
}

void StepPipeline::end_step() {
  ensure(gathers(), "steps", "no step is gathering");
  apply(steps_.back());
  steps_.back().state = policy_.resolves ? State::applied : State::resolved;
  resolve(false);
  notify_resolved(false);
}

void StepPipeline::drain() {
  ensure(!gathers(), "steps", "drained while a step gathers micro-batches");
  resolve(true);
  notify_resolved(true);
}

void StepPipeline::forget_carries() {
  for (auto& of_phase : carries_) std::ranges::fill(of_phase, tasks::CarriedState());
}

StepPipeline::Remedy StepPipeline::remedy_for(const optim::StepReport& report) const {
  if (!report.skip) return {};
  const bool hopeless = report.exhausted || report.consecutive_skips >= policy_.max_skips;
  // A non-finite loss stays so at any scale.
  return {.give_up = hopeless,
          .diagnose = hopeless || listener_.wants_diagnosis(),
          .retry = !hopeless && policy_.retries && std::isfinite(report.loss)};
}

// Resolves the applied step if its outcome is known; `wait`: waits for it. If the step is retried or
// diagnosed, the micro-batches that the next step has gathered meanwhile are dropped and recomputed.
void StepPipeline::resolve(bool wait) {
  const auto step = std::ranges::find(steps_, State::applied, &InFlightStep::state);
  if (step == steps_.end()) return;
  const auto report = driver_.report(step->phase, step->attempted, wait);
  if (!report) return;
  if (remedy_for(*report).any()) {
    if (gathers()) driver_.discard(steps_.back().phase);
    notify_resolved(false);  // earlier steps, while the driver still has their reports
    take_remedies(*step, *report);
    if (gathers())
      for (const MicroBatch& micro_batch : steps_.back().micro_batches) run(steps_.back().phase, micro_batch);
  }
  step->state = State::resolved;
  step->micro_batches.clear();
}

void StepPipeline::take_remedies(InFlightStep& step, optim::StepReport report) {
  for (Remedy remedy = remedy_for(report); remedy.any(); remedy = remedy_for(report)) {
    std::optional<amp::Overflow> cause;
    if (remedy.diagnose) cause = listener_.diagnose(step, report);
    if (remedy.give_up) listener_.give_up(step, report, cause);
    if (!remedy.retry) return;
    for (const MicroBatch& micro_batch : step.micro_batches) run(step.phase, micro_batch);
    apply(step);
    report = driver_.report(step.phase, step.attempted, true).value();
  }
}

void StepPipeline::notify_resolved(bool wait) {
  while (!steps_.empty() && steps_.front().state == State::resolved) {
    const InFlightStep& step = steps_.front();
    const bool newest = step.attempted == newest_[step.phase];
    const auto report = driver_.report(step.phase, step.attempted, wait || !newest);
    if (!report) return;
    listener_.on_resolved(step, *report);
    steps_.pop_front();
  }
}

}  // namespace tandem::train
