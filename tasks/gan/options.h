// Options of a GAN task.
#pragma once

#include <optional>
#include <string>

#include "models/model_options.h"
#include "tasks/metrics.h"
#include "tasks/sample_options.h"
#include "tasks/sections.h"

namespace tandem::tasks {

struct GanOptions {
  struct Evaluation {
    std::optional<std::string> features;
    Index samples = 10000;
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  SampleOptions data;  // the same data sets; labels are ignored
  Evaluation eval;
  Checkpoint<GanOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
