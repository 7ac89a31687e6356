// Events of metrics.jsonl: one JSON object per line. Field names are a stable interface. A
// non-finite number is written as null.
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
  std::int64_t step = 0;       // steps before this session; it replaces earlier events of later steps
  tasks::MetricKinds kinds{};  // of the metrics of evaluations
};

struct StepEvent {
  std::int64_t step = 0;  // attempted
  std::int64_t applied = 0;
  std::int64_t epoch = 0;  // 1-based
  double loss = 0.0;
  double lr = 0.0;
  double loss_scale = 1.0;   // used in this step
  std::int64_t skipped = 0;  // total
  double grad_norm = 0.0;
  double items_per_s = 0.0;
  std::string phase{};  // of the step, if the task has several
};

struct EvalEvent {
  std::int64_t step = 0, epoch = 0;
  std::string split;
  Metrics metrics;
};

// A skipped step, and the source of its first non-finite value (amp/overflow.h).
struct OverflowEvent {
  std::int64_t step = 0;  // attempted
  double loss_scale = 1.0;
  std::string op, tensor;
  std::int64_t index = 0;
  std::string where;    // "forward" or "backward"
  std::string cause;    // "scale" or "intrinsic"
  std::string phase{};  // as in StepEvent
};

// Exponents of the weight gradients of all parameters in the last step before an evaluation; written before
// the evaluation.
struct GradientsEvent {
  std::int64_t step = 0, epoch = 0;
  double loss_scale = 1.0;  // of that step; gradients are unscaled
  amp::ExponentHistogram weights;
};

// An image from an evaluation, in the run directory.
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

// Lines of metrics.jsonl.
std::string line_of(const StartEvent& event);  // adds `time` (ISO 8601, UTC) and `version`
std::string line_of(const StepEvent& event);
std::string line_of(const EvalEvent& event);
std::string line_of(const OverflowEvent& event);
// "first" is the exponent of counts[0]; "flushed" the number of values that FP16 rounds to zero at scale 1;
// "saving_scale" the log2 of the smallest scale at which at most one in a thousand is.
std::string line_of(const GradientsEvent& event);
std::string line_of(const PictureEvent& event);
std::string line_of(const EndEvent& event);
std::string checkpoint_line(std::int64_t step, const std::string& path);

// "2026-01-31T23:59:59Z"
std::string utc_now();

}  // namespace tandem::runs
