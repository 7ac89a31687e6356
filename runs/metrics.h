// metrics.jsonl: one JSON object a line, flushed line by line. The field names are a promise to those who
// read it. A number that is not finite is written as null.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "amp/gradient_histogram.h"
#include "runs/metrics_record.h"
#include "tasks/metrics.h"

namespace tandem::runs {

using tasks::metric;
using tasks::Metrics;

struct StartEvent {
  std::int64_t parameters = 0;
  std::string precision, device;
  std::int64_t step = 0;       // steps before: what the file says of later ones no longer holds
  tasks::MetricKinds kinds{};  // of what evaluations say
};

struct StepEvent {
  std::int64_t step = 0;  // attempted
  std::int64_t applied = 0;
  std::int64_t epoch = 0;  // 1-based
  double loss = 0.0;
  double lr = 0.0;
  double loss_scale = 1.0;   // the one used
  std::int64_t skipped = 0;  // total
  double grad_norm = 0.0;
  double items_per_s = 0.0;
  std::string phase{};  // where a task has several: whose step it is
};

struct EvalEvent {
  std::int64_t step = 0, epoch = 0;
  std::string split;
  Metrics metrics;
};

// A step that was skipped, and where its first non-finite value came from (amp/overflow.h).
struct OverflowEvent {
  std::int64_t step = 0;  // attempted
  double loss_scale = 1.0;
  std::string op, tensor;
  std::int64_t index = 0;
  std::string where;    // "forward" or "backward"
  std::string cause;    // "scale" or "intrinsic"
  std::string phase{};  // as in StepEvent
};

// Exponents of the weight gradients, all parameters together, as the last step before an evaluation found
// them; written before the evaluation.
struct GradientsEvent {
  std::int64_t step = 0, epoch = 0;
  double loss_scale = 1.0;  // which the gradients were divided by
  amp::ExponentHistogram weights;
};

// An image that an evaluation left in the run directory.
struct PictureEvent {
  std::int64_t step = 0, epoch = 0;
  std::string name;  // of the series: "samples.png"
  std::string file;  // "samples-0003.png"
};

struct EndEvent {
  std::string status;  // "completed", "interrupted", "failed", "diverged"
  std::int64_t steps = 0, applied = 0, skipped = 0;
  double wall_s = 0.0;
  std::size_t peak_memory_bytes = 0;
  Metrics metrics;  // of the last evaluation
};

class MetricsFile {
 public:
  explicit MetricsFile(const RunDirectory& directory) : record_(directory) {}

  void write(const StartEvent& event);  // adds `time` (ISO 8601, UTC) and `version`
  void write(const StepEvent& event);
  void write(const EvalEvent& event);
  void write_checkpoint(std::int64_t step, const std::string& path);
  void write(const OverflowEvent& event);
  // "first" is the exponent of counts[0]; "flushed" is how many FP16 rounds to zero at scale 1, and
  // "saving_scale" the log2 of the smallest scale at which that is at most one in a thousand.
  void write(const GradientsEvent& event);
  void write(const PictureEvent& event);
  void write(const EndEvent& event);

  // See MetricsRecord.
  std::optional<std::string> trouble() const { return record_.trouble(); }
  MetricsMark mark() const { return record_.mark(); }

 private:
  MetricsRecord record_;
};

// The line of `write_checkpoint`.
std::string checkpoint_line(std::int64_t step, const std::string& path);

// "2026-01-31T23:59:59Z"
std::string utc_now();

}  // namespace tandem::runs
