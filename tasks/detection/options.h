// Options of a task of detection in a configuration.
#pragma once

#include <string>
#include <vector>

#include "data/boxes/box_registry.h"
#include "data/transforms/transform.h"
#include "models/model_options.h"
#include "tasks/detection/multibox.h"
#include "tasks/detection/suppression.h"
#include "tasks/metrics.h"
#include "tasks/sections.h"

namespace tandem::tasks {

// How VOC's mean of the precisions is taken (tasks/detection/voc.h).
enum class VocMean : std::uint8_t { eleven_point, area };

struct DetectionOptions {
  struct Data {
    datasets::BoxSetOptions set;
    Index image_size = 300;
    Index channels = 3;
    std::vector<datasets::TransformSpec> augment;
    static const options::Schema& schema();
  };
  struct Postprocess {
    double score = SuppressionOptions{}.score;
    Index per_class = SuppressionOptions{}.per_class;
    double nms = SuppressionOptions{}.overlap;
    Index keep = SuppressionOptions{}.keep;
    static const options::Schema& schema();

    SuppressionOptions suppression() const;
  };
  struct Evaluation {
    VocMean voc = VocMean::eleven_point;
    bool results = false;
    Index examples = 4;
    double shown = 0.5;
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  MultiboxOptions loss;
  Postprocess postprocess;
  Evaluation eval;
  Checkpoint<DetectionOptions> checkpoint;
  static options::Schema schema();
  // What evaluations say.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
