// Options of a segmentation task.
#pragma once

#include <vector>

#include "data/masked_sets.h"
#include "data/transforms/transform.h"
#include "models/model_options.h"
#include "tasks/metrics.h"
#include "tasks/sections.h"
#include "tasks/segmentation/loss.h"

namespace tandem::tasks {

struct SegmentationOptions {
  struct Data {
    datasets::MaskedSetOptions set;
    std::vector<datasets::TransformSpec> augment;
    static const options::Schema& schema();
  };
  struct Evaluation {
    bool confusion = false;
    Index examples = 4;
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  options::Choice<segmentation_losses> loss;
  Evaluation eval;
  Checkpoint<SegmentationOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
