// StepLog: what a run tells of its steps: metrics, the bar, where a step overflowed, and why training ends
// that diverged.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "train/process_group.h"
#include "train/run_output.h"
#include "train/run_schedules.h"
#include "train/step_runners.h"

namespace tandem::train {

// Training ran away; with the sentence for the user.
struct Diverged {
  std::string what;
};

class StepLog final : public StepListener {
 public:
  // What a log tells of and to; kept by reference.
  struct Run {
    const config::Config& config;
    const tasks::Task& task;
    Learners& learners;
    StepRunners& runners;
    ProcessGroup& ranks;
    RunOutput& output;
    runs::RunState& state;  // gets the losses and samples of the epoch, and how many steps were diagnosed
    std::int64_t steps_per_epoch = 0;
  };
  explicit StepLog(const Run& run);

  void begin_epoch() { own_samples_ = 0.0; }
  // Of the epoch, that this process has served.
  double own_samples() const { return own_samples_; }

  bool wants_diagnosis() const override { return run_.state.diagnosed < run_.config.precision.diagnose; }
  // A call of all ranks, which look at their own shards.
  std::optional<amp::Overflow> diagnose(const InFlightStep& step, const optim::StepReport& report) override;
  // Throws Diverged.
  [[noreturn]] void give_up(const InFlightStep& step, const optim::StepReport& report,
                            const std::optional<amp::Overflow>& cause) override;
  // Throws Diverged for a loss that is not finite, unless on_divergence says otherwise, and for too many
  // skips.
  void tell(const InFlightStep& step, const optim::StepReport& report) override;

 private:
  std::string advice_on_divergence(const InFlightStep& step, const optim::StepReport& report) const;
  void show_progress(const InFlightStep& step, double lr);

  const Run run_;
  // By phase: iteration and loss of the last step.
  std::vector<std::int64_t> iterations_;
  std::vector<double> losses_;
  double step_seconds_ = 0.0;  // smoothed
  double own_samples_ = 0.0;
  bool told_of_wire_ = false;
};

}  // namespace tandem::train
