// Options of a GAN in a configuration.
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
  SampleOptions data;  // the same sets; their labels are not looked at
  Evaluation eval;
  Checkpoint<GanOptions> checkpoint;
  static options::Schema schema();
  // What evaluations say.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
