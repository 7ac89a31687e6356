// StepLog: log of a run's steps: metrics, progress bar, overflows, and the reason for divergence.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "train/process_group.h"
#include "train/run_output.h"
#include "train/run_schedules.h"
#include "train/step_runners.h"

namespace tandem::train {

// Thrown if training diverged, with a message for the user.
struct Diverged {
  std::string what;
};

class StepLog final : public StepListener {
 public:
  // Inputs and outputs of the log; kept by reference.
  struct Run {
    const config::Config& config;
    const tasks::Task& task;
    Learners& learners;
    StepRunners& runners;
    ProcessGroup& ranks;
    RunOutput& output;
    runs::RunState& state;  // updated: losses and samples of the epoch, number of diagnosed steps
    std::int64_t steps_per_epoch = 0;
  };
  explicit StepLog(const Run& run);

  // An epoch of `steps` steps, `done` of which came before a resume.
  void begin_epoch(std::int64_t steps, std::int64_t done);
  // Samples of the epoch that this process has computed.
  double own_samples() const { return own_samples_; }

  bool wants_diagnosis() const override { return run_.state.diagnosed < run_.config.precision.diagnose; }
  // Collective: each rank searches its own shards.
  std::optional<amp::Overflow> diagnose(const InFlightStep& step, const optim::StepReport& report) override;
  // Throws Diverged.
  [[noreturn]] void give_up(const InFlightStep& step, const optim::StepReport& report,
                            const std::optional<amp::Overflow>& cause) override;
  // Throws Diverged for a non-finite loss, unless on_divergence says otherwise, and for too many skipped
  // steps.
  void on_resolved(const InFlightStep& step, const optim::StepReport& report) override;

 private:
  std::string advice_on_divergence(const InFlightStep& step, const optim::StepReport& report) const;
  void show_progress(const InFlightStep& step, double lr);

  const Run run_;
  // By phase: iteration and loss of the last step.
  std::vector<std::int64_t> iterations_;
  std::vector<double> losses_;
  double step_seconds_ = 0.0;  // exponential moving average
  double own_samples_ = 0.0;
  std::int64_t steps_ = 0, before_epoch_ = 0;  // steps of this epoch, of all before it
  bool wire_error_logged_ = false;
};

}  // namespace tandem::train
