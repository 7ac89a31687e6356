// Task: what is learnt from a batch, and how well. The Trainer knows nothing else about it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/tensor.h"
#include "data/loader.h"
#include "runs/metrics.h"

namespace tandem::tasks {

// Counts of true class (row) against predicted class (column).
struct ConfusionMatrix {
  Index classes = 0;
  std::vector<std::int64_t> counts;  // [classes, classes]

  // Comma-separated values with a header of class names (numbers where there are none).
  std::string csv(const std::vector<std::string>& class_names) const;
};

// Gathers figures over the batches of one evaluation; every sample weighs the same, whatever its batch.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  virtual void add(const Tensor& output, const datasets::Batch& batch) = 0;
  virtual runs::Metrics metrics() const = 0;
  // Absent unless asked for, and for tasks without classes.
  virtual const ConfusionMatrix* confusion() const { return nullptr; }
};

class Task {
 public:
  virtual ~Task() = default;
  // An f32 scalar: the mean over the batch.
  virtual Tensor loss(const Tensor& output, const datasets::Batch& batch) const = 0;
  // What the loss of a batch counts in a mean over several, from the labels, on the host; absent: its
  // samples.
  virtual datasets::BatchWeight batch_weight() const { return {}; }
  virtual std::unique_ptr<Evaluation> evaluation(bool confusion = false) const = 0;
  // Whether a greater value of the metric is the better one.
  virtual bool greater_is_better(const std::string& metric) const = 0;
};

// `output` is the shape of one sample's result. Throws UserError when the configuration does not fit it.
std::unique_ptr<Task> make_task(const config::Config& config, const Shape& output);

}  // namespace tandem::tasks
