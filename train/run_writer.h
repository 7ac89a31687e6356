// RunWriter: everything a run writes about its course: metrics.jsonl, event files for TensorBoard, and
// metrics.csv when it ends.
#pragma once

#include <memory>

#include "optim/step.h"
#include "train/config/config.h"
#include "train/metrics.h"
#include "train/run_directory.h"
#include "train/tensorboard/event_file.h"

namespace tandem::train {

class RunWriter {
 public:
  // With OnWriteError::keep, a system that refuses to write ends no run: lines of metrics.jsonl wait, the
  // event file ends there, the table stays as it was.
  RunWriter(const RunDirectory& directory, const config::Config& config,
            OnWriteError on_error = OnWriteError::fail);

  void write(const StartEvent& event);
  void write(const StepEvent& event);
  void write(const EvalEvent& event);
  void write_checkpoint(std::int64_t step, const std::string& path) { metrics_.write_checkpoint(step, path); }
  void write(const OverflowEvent& event) { metrics_.write(event); }
  void write(const EndEvent& event);

  // Distributions of the weights and of the last step's gradients, which must lie in the buffers still;
  // gradients are left out after a skipped step, or when this process has done none. Waits for the device.
  void write_tensors(optim::Step& step, std::int64_t epoch);

 private:
  template <class Write>
  void to_events(Write&& write);

  const RunDirectory& directory_;
  const config::Config& config_;
  OnWriteError on_error_;
  MetricsFile metrics_;
  std::unique_ptr<tensorboard::EventFile> events_;  // absent: not wanted
  std::int64_t first_step_ = 0;                     // steps before this session
};

}  // namespace tandem::train
