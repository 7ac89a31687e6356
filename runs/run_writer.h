// RunWriter: writes metrics.jsonl, event files for TensorBoard, and metrics.csv at the end. Write errors do
// not throw: lines of metrics.jsonl wait, the event file ends, the table stays unchanged, and `write_error`
// returns the error.
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
  // nullptr: writes nothing. Throws VendorError if metrics.jsonl cannot be opened.
  RunWriter(const RunDirectory* directory, const config::Config& config);

  void write(const StartEvent& event);
  void write(const StepEvent& event);
  void write(const EvalEvent& event);
  void write_checkpoint(std::int64_t step, const std::string& path) {
    if (metrics_) metrics_->add(checkpoint_line(step, path));
  }
  void write(const OverflowEvent& event) { record(event); }
  void write(const EndEvent& event);
  // An image that was written to the run directory.
  void write_picture(const PictureEvent& event, const std::string& png);

  // Distributions of the weights and of the last steps' gradients, which must still be in the buffers. Leaves
  // out gradients of a skipped step, or of one that this process has not done. Waits for the device.
  void write_tensors(const std::vector<optim::Step*>& steps, std::int64_t iteration, std::int64_t epoch);

  // The current write error, that of metrics.jsonl first, whose lines may be written later.
  std::optional<std::string> write_error() const { return metrics_error() ? metrics_error() : write_error_; }
  // The error of metrics.jsonl alone.
  std::optional<std::string> metrics_error() const {
    return metrics_ ? metrics_->write_error() : std::nullopt;
  }
  std::optional<MetricsMark> mark() const {
    return metrics_ ? std::optional(metrics_->mark()) : std::nullopt;
  }

 private:
  template <class Event>
  void record(const Event& event) {
    if (metrics_) metrics_->add(line_of(event));
  }
  template <class Write>
  void to_events(Write&& write);

  const RunDirectory* directory_;
  const config::Config& config_;
  std::optional<MetricsRecord> metrics_;            // absent: writes nothing
  std::unique_ptr<tensorboard::EventFile> events_;  // null if not wanted, or after an error
  std::optional<std::string> write_error_;          // of the event file, then of the table
  std::int64_t first_step_ = 0;                     // steps before this session
};

}  // namespace tandem::runs
