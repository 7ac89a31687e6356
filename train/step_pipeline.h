// StepPipeline: the training steps of a run, from their first micro-batch until their outcome is told.
//
//   gathering → applied → resolved → told, and gone
//
// gathering: its micro-batches are being done. applied: its update was asked for; the outcome may not be
// known yet. resolved: nothing changes the outcome any more: a step that was skipped has been diagnosed, and
// done again at the lower loss scale where the policy says so. At most one step is gathering, the newest, and
// at most one is applied, the one before it.
//
// A StepDriver does the work, a StepListener hears what came of it. The pipeline itself knows no device, file
// or rank.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "amp/overflow.h"
#include "data/batch.h"
#include "optim/step/report.h"
#include "tasks/carried_state.h"

namespace tandem::train {

// A micro-batch of a step; of a batch that is divided, the part of one of this process's shards.
struct MicroBatch {
  datasets::Batch batch;
  tasks::CarriedState carry{};  // that it begins with
  std::size_t shard = 0;        // among those of this process
  double samples = 0.0;         // that it stands for: those of the whole batch with its last part, else none
};

struct InFlightStep {
  enum class State : std::uint8_t { gathering, applied, resolved };

  std::size_t phase = 0;
  State state = State::gathering;
  std::vector<MicroBatch> micro_batches{};  // kept until the step is resolved, where it may be done again
  double samples = 0.0;
  std::int64_t attempted = 0;  // its number among those of its phase
  std::int64_t iteration = 0;
  double seconds = 0.0;
};

// Computes the steps of all phases; of each phase one at a time.
class StepDriver {
 public:
  struct Applied {
    std::int64_t attempted = 0, iteration = 0;
    double seconds = 0.0;  // since the last step of the phase ended
  };

  virtual ~StepDriver() = default;
  // Forward and backward; returns what the next micro-batch of the phase and shard begins with.
  virtual tasks::CarriedState backward(std::size_t phase, const MicroBatch& micro_batch) = 0;
  // Ends the step of the micro-batches since the last call for the phase.
  virtual Applied apply(std::size_t phase) = 0;
  // The outcome of one of the last two steps of the phase. Waits for it; without `wait` it is the last one's,
  // and absent where it has not arrived.
  virtual std::optional<optim::StepReport> report(std::size_t phase, std::int64_t attempted, bool wait) = 0;
  // Forgets the micro-batches since the last apply().
  virtual void discard(std::size_t phase) = 0;
};

class StepListener {
 public:
  virtual ~StepListener() = default;
  // Whether the next step that is skipped is to be diagnosed.
  virtual bool wants_diagnosis() const = 0;
  // What made a step overflow, where that is found. Its gradients are dropped.
  virtual std::optional<amp::Overflow> diagnose(const InFlightStep& step,
                                                const optim::StepReport& report) = 0;
  // No lower scale helps, or too many steps in a row were skipped. Throws.
  [[noreturn]] virtual void give_up(const InFlightStep& step, const optim::StepReport& report,
                                    const std::optional<amp::Overflow>& cause) = 0;
  // The outcome of each step in turn, once, at most one step of its phase late. May throw, which ends the
  // run.
  virtual void tell(const InFlightStep& step, const optim::StepReport& report) = 0;
};

struct RetryPolicy {
  // Steps may overflow (16 bits): the outcome of each is known before the next one changes anything, and
  // before more than one micro-batch of it is asked for. On an asynchronous device that one is under way by
  // then, so the device does not wait.
  bool resolves = false;
  bool retries = false;        // a step that overflowed is done again at the lower scale
  std::int64_t max_skips = 0;  // in a row
};

class StepPipeline {
 public:
  // `carries`: what the next micro-batch of each phase and shard begins with. Driver and listener are kept by
  // reference.
  StepPipeline(StepDriver& driver, StepListener& listener, RetryPolicy policy,
               std::vector<std::vector<tasks::CarriedState>> carries);

  // Does a micro-batch of the step of a phase, with what the one before it left; begins a step where none
  // gathers.
  void add(std::size_t phase, MicroBatch micro_batch);
  // Ends the step that gathers. Throws InternalError where none does.
  void end_step();
  // Every step is told. Between two steps.
  void drain();

  const std::vector<std::vector<tasks::CarriedState>>& carries() const { return carries_; }
  // Nothing is carried into the next micro-batches: an epoch begins.
  void forget_carries();

 private:
  struct Remedy {
    bool give_up = false, diagnose = false, retry = false;
    bool any() const { return give_up || diagnose || retry; }
  };

  bool gathers() const { return !steps_.empty() && steps_.back().state == InFlightStep::State::gathering; }
  void run(std::size_t phase, const MicroBatch& micro_batch);
  void apply(InFlightStep& step);
  Remedy remedy_for(const optim::StepReport& report) const;
  void resolve(bool wait);
  void take_remedies(InFlightStep& step, optim::StepReport report);
  void tell_resolved(bool wait);

  StepDriver& driver_;
  StepListener& listener_;
  const RetryPolicy policy_;
  std::vector<std::vector<tasks::CarriedState>> carries_;
  std::vector<std::int64_t> newest_;  // by phase: attempted of the step that was applied last
  std::deque<InFlightStep> steps_;    // oldest first
};

}  // namespace tandem::train
