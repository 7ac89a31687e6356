#include "train/step_ledger.h"

#include "core/error.h"

namespace tandem::train {

using State = LedgerStep::State;

void StepLedger::add(std::size_t phase, const MicroBatch& micro_batch) {
  if (!gathering()) steps_.push_back({.phase = phase});
  LedgerStep& step = steps_.back();
  ensure(step.phase == phase, "ledger", "a micro-batch of phase {} while phase {} gathers", phase,
         step.phase);
  step.samples += micro_batch.samples;
  if (repeats_) step.micro_batches.push_back(micro_batch);
}

void StepLedger::apply(std::int64_t attempted, std::int64_t iteration, double seconds) {
  ensure(gathering() != nullptr, "ledger", "no step is gathering");
  ensure(unsettled() == nullptr, "ledger", "step {} is applied before the one before it is settled",
         attempted);
  LedgerStep& step = steps_.back();
  step.attempted = attempted;
  step.iteration = iteration;
  step.seconds = seconds;
  step.state = repeats_ ? State::applied : State::settled;
}

LedgerStep* StepLedger::unsettled() {
  for (LedgerStep& step : steps_)
    if (step.state == State::applied) return &step;
  return nullptr;
}

void StepLedger::settle() {
  LedgerStep* const step = unsettled();
  if (!step) return;
  step->state = State::settled;
  step->micro_batches.clear();
}

const LedgerStep* StepLedger::gathering() const {
  return !steps_.empty() && steps_.back().state == State::gathering ? &steps_.back() : nullptr;
}

const LedgerStep* StepLedger::readable() const {
  return !steps_.empty() && steps_.front().state == State::settled ? &steps_.front() : nullptr;
}

void StepLedger::pop() {
  ensure(readable() != nullptr, "ledger", "no step is settled");
  steps_.pop_front();
}

}  // namespace tandem::train
