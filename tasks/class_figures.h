// Metrics of extensions for classes: evaluations of classification, text_classification and segmentation
// report them beside their own, and `checkpoint.best` may name them.
#pragma once

#include <functional>
#include <string>

#include "core/options/registry.h"
#include "metrics/confusion_matrix.h"
#include "tasks/metrics.h"

namespace tandem::tasks {

struct ClassFigure {
  std::string name;  // "balanced_accuracy"
  MetricKind kind;
  // The metric, from all samples (pixels) of an evaluation.
  std::function<double(const metrics::ConfusionMatrix&)> value;
};

// Empty unless an extension adds entries.
options::Entries<ClassFigure>& class_figures();

// Appends the kinds of class_figures() to those of a task. Throws UserError for a name that is in both.
MetricKinds with_class_figures(MetricKinds kinds);
void add_class_figures(const metrics::ConfusionMatrix& confusion, Metrics& metrics);

}  // namespace tandem::tasks
