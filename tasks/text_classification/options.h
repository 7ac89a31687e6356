// Options of a text-classification task.
#pragma once

#include "data/text/labelled_registry.h"
#include "models/model_options.h"
#include "tasks/classification/options.h"

namespace tandem::tasks {

struct TextClassificationOptions {
  struct Data {
    datasets::LabelledTextOptions text;
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  options::Choice<classification_losses> loss;
  ClassificationOptions::Evaluation eval;
  Checkpoint<TextClassificationOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics() { return ClassificationOptions::metrics(); }
};

}  // namespace tandem::tasks
