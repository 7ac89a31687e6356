// Options of a classification task.
#pragma once

#include "models/model_options.h"
#include "tasks/classification/loss.h"
#include "tasks/metrics.h"
#include "tasks/sample_options.h"
#include "tasks/sections.h"

namespace tandem::tasks {

struct ClassificationOptions {
  using Data = SampleOptions;
  struct Evaluation {
    bool confusion = false;
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  options::Choice<classification_losses> loss;
  Evaluation eval;
  Checkpoint<ClassificationOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
