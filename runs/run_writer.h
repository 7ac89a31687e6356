// RunWriter: everything a run writes about its course: metrics.jsonl, event files for TensorBoard, and
// metrics.csv when it ends. A system that refuses to write ends nothing here: lines of metrics.jsonl wait, an
// event file ends there, the table stays as it was, and `trouble` says so.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "optim/step.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "runs/tensorboard/event_file.h"

namespace tandem::runs {

class RunWriter {
 public:
  // nullptr: nothing is written. Throws VendorError when metrics.jsonl cannot be opened.
  RunWriter(const RunDirectory* directory, const config::Config& config);

  void write(const StartEvent& event);
  void write(const StepEvent& event);
  void write(const EvalEvent& event);
  void write_checkpoint(std::int64_t step, const std::string& path) {
    if (metrics_) metrics_->write_checkpoint(step, path);
  }
  void write(const OverflowEvent& event) {
    if (metrics_) metrics_->write(event);
  }
  void write(const EndEvent& event);
  // An image that was written to a file of the run directory.
  void write_picture(const PictureEvent& event, const std::string& png);

  // Distributions of the weights and of the last steps' gradients, which must lie in the buffers still; the
  // gradients of a step that was skipped, or that this process has not done, are left out. Waits for the
  // device.
  void write_tensors(const std::vector<optim::Step*>& steps, std::int64_t iteration, std::int64_t epoch);

  // What cannot be written, and why; lines of metrics.jsonl first, which may be written later.
  std::optional<std::string> trouble() const { return unwritten() ? unwritten() : trouble_; }
  // Of metrics.jsonl alone.
  std::optional<std::string> unwritten() const { return metrics_ ? metrics_->trouble() : std::nullopt; }
  std::optional<MetricsMark> mark() const {
    return metrics_ ? std::optional(metrics_->mark()) : std::nullopt;
  }

 private:
  template <class Write>
  void to_events(Write&& write);

  const RunDirectory* directory_;
  const config::Config& config_;
  std::optional<MetricsFile> metrics_;              // absent: nothing is written
  std::unique_ptr<tensorboard::EventFile> events_;  // absent: not wanted, or it could not be written
  std::optional<std::string> trouble_;              // of the event file, then of the table
  std::int64_t first_step_ = 0;                     // steps before this session
};

}  // namespace tandem::runs
