// Figures of classes from outside the tree: evaluations of classification, text_classification and
// segmentation give them besides their own, and `checkpoint.best` may name them.
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
  // Of all samples (pixels) of an evaluation.
  std::function<double(const metrics::ConfusionMatrix&)> value;
};

// None unless some are added.
options::Entries<ClassFigure>& class_figures();

// Appends the kinds of class_figures() to those of a family. Throws UserError for a name that is in both.
MetricKinds with_class_figures(MetricKinds kinds);
void add_class_figures(const metrics::ConfusionMatrix& confusion, Metrics& metrics);

}  // namespace tandem::tasks
