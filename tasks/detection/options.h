// Options of a detection task.
#pragma once

#include <vector>

#include "data/boxes/box_registry.h"
#include "data/transforms/transform.h"
#include "models/box_suppression.h"
#include "models/model_options.h"
#include "models/multibox.h"
#include "tasks/metrics.h"
#include "tasks/sections.h"

namespace tandem::tasks {

// VOC's average precision (metrics/voc.h).
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
    double score = models::SuppressionOptions{}.score;
    Index per_class = models::SuppressionOptions{}.per_class;
    double nms = models::SuppressionOptions{}.overlap;
    Index keep = models::SuppressionOptions{}.keep;
    static const options::Schema& schema();

    models::SuppressionOptions suppression() const;
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
  models::MultiboxOptions loss;
  Postprocess postprocess;
  Evaluation eval;
  Checkpoint<DetectionOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
