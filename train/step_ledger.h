// StepLedger: the steps of a run that are under way, oldest first, and how far each has come.
//
//   gathering → applied → settled → read, and gone
//
// gathering: its micro-batches are being done. applied: its update was asked for; the outcome may not be
// known yet, and the step may have to be done again. settled: nothing changes the outcome any more. At most
// one is gathering, the newest, and at most one is applied and not settled, the one before it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "data/batch.h"
#include "tasks/carry.h"

namespace tandem::train {

// With what it began. Of a batch that is divided, an own part of it.
struct MicroBatch {
  datasets::Batch batch;
  tasks::Carry carry;
  std::size_t shard = 0;  // among those of this process
  double samples = 0.0;   // that it stands for: those of the whole batch with its last part, else none
};

struct LedgerStep {
  enum class State : std::uint8_t { gathering, applied, settled };

  std::size_t phase = 0;
  State state = State::gathering;
  std::vector<MicroBatch> micro_batches{};  // kept until the step is settled, where it may be done again
  double samples = 0.0;
  std::int64_t attempted = 0;  // its number among those of its phase
  std::int64_t iteration = 0;
  double seconds = 0.0;
};

class StepLedger {
 public:
  // `repeats`: steps may have to be done again, and are settled by settle(); else they are when applied.
  explicit StepLedger(bool repeats) : repeats_(repeats) {}

  // A micro-batch of the step that is gathering, with which one begins where there is none.
  void add(std::size_t phase, const MicroBatch& micro_batch);
  // The step that is gathering ends. Throws InternalError when there is none, or the one before is not
  // settled.
  void apply(std::int64_t attempted, std::int64_t iteration, double seconds);
  // The step that is applied; nullptr when every one that was is settled.
  LedgerStep* unsettled();
  // Nothing will change it any more: what it was kept for goes.
  void settle();
  // nullptr when there is none.
  const LedgerStep* gathering() const;
  // The step to read next; nullptr when it is not settled, or there is none.
  const LedgerStep* readable() const;
  void pop();

 private:
  bool repeats_;
  std::deque<LedgerStep> steps_;
};

}  // namespace tandem::train
