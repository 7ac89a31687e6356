// StepPipeline: the training steps of a run, from their first micro-batch to their log entry.
//
//   gathering → applied → resolved → logged and removed
//
// gathering: micro-batches of the step are computed. applied: the update is enqueued; its outcome may still
// be unknown. resolved: the outcome is final: a skipped step has been diagnosed, and retried at the lower
// loss scale if the policy says so. At most one step is gathering, the newest, and at most one is applied,
// the one before it.
//
// A StepDriver computes the steps, a StepListener gets their outcomes. The pipeline depends on no device,
// file or rank.
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

// A micro-batch of a step; if batches are divided, the part of one of this process's shards.
struct MicroBatch {
  datasets::Batch batch;
  tasks::CarriedState carry{};  // at its start
  std::size_t shard = 0;        // among those of this process
  double samples = 0.0;         // number it counts for: the last part has those of the whole batch, others 0
};

struct InFlightStep {
  enum class State : std::uint8_t { gathering, applied, resolved };

  std::size_t phase = 0;
  State state = State::gathering;
  std::vector<MicroBatch> micro_batches{};  // kept until the step is resolved, for retries
  double samples = 0.0;
  std::int64_t attempted = 0;  // number among the attempts of its phase
  std::int64_t iteration = 0;
  double seconds = 0.0;
};

// Computes the steps of all phases, one step of a phase at a time.
class StepDriver {
 public:
  struct Applied {
    std::int64_t attempted = 0, iteration = 0;
    double seconds = 0.0;  // since the end of the phase's last step
  };

  virtual ~StepDriver() = default;
  // Runs forward and backward; returns the carried state for the next micro-batch of the phase and shard.
  virtual tasks::CarriedState backward(std::size_t phase, const MicroBatch& micro_batch) = 0;
  // Applies the step of the phase's micro-batches since the last call.
  virtual Applied apply(std::size_t phase) = 0;
  // Outcome of one of the last two steps of the phase. Without `wait`, which requires the last step, it is
  // absent if it has not arrived.
  virtual std::optional<optim::StepReport> report(std::size_t phase, std::int64_t attempted, bool wait) = 0;
  // Drops the micro-batches since the last apply().
  virtual void discard(std::size_t phase) = 0;
};

class StepListener {
 public:
  virtual ~StepListener() = default;
  // Whether the next skipped step is to be diagnosed.
  virtual bool wants_diagnosis() const = 0;
  // Searches the cause of a step's overflow; drops its gradients.
  virtual std::optional<amp::Overflow> diagnose(const InFlightStep& step,
                                                const optim::StepReport& report) = 0;
  // No lower scale is possible, or too many consecutive steps were skipped. Throws.
  [[noreturn]] virtual void give_up(const InFlightStep& step, const optim::StepReport& report,
                                    const std::optional<amp::Overflow>& cause) = 0;
  // Gets the outcome of each step once, in order, at most one step of its phase late. An exception ends the
  // run.
  virtual void on_resolved(const InFlightStep& step, const optim::StepReport& report) = 0;
};

struct RetryPolicy {
  // Steps may overflow (16 bits): each outcome is known before the next step changes anything, and after at
  // most one of its micro-batches. An asynchronous device computes that micro-batch meanwhile and does not
  // idle.
  bool resolves = false;
  bool retries = false;        // a step that overflowed is retried at the lower scale
  std::int64_t max_skips = 0;  // consecutive
};

class StepPipeline {
 public:
  // `carries`: carried state for the next micro-batch, by phase and shard. Driver and listener are kept by
  // reference.
  StepPipeline(StepDriver& driver, StepListener& listener, RetryPolicy policy,
               std::vector<std::vector<tasks::CarriedState>> carries);

  // Computes a micro-batch of the phase's step from the current carried state; starts a step if none is
  // gathering.
  void add(std::size_t phase, MicroBatch micro_batch);
  // Applies the gathering step. Throws InternalError if there is none.
  void end_step();
  // Resolves and logs every step. Call it between two steps.
  void drain();

  const std::vector<std::vector<tasks::CarriedState>>& carries() const { return carries_; }
  // Clears the carried states, at the start of an epoch.
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
  void notify_resolved(bool wait);

  StepDriver& driver_;
  StepListener& listener_;
  const RetryPolicy policy_;
  std::vector<std::vector<tasks::CarriedState>> carries_;
  std::vector<std::int64_t> newest_;  // by phase: attempt number of the last applied step
  std::deque<InFlightStep> steps_;    // oldest first
};

}  // namespace tandem::train
