// Options of a masked-language task.
#pragma once

#include "data/text/codec.h"
#include "data/text/registry.h"
#include "models/model_options.h"
#include "tasks/metrics.h"
#include "tasks/sections.h"

namespace tandem::tasks {

// Metric of models with pairs of texts only.
inline constexpr const char* kNextAccuracy = "next_accuracy";

struct MaskedLanguageOptions {
  struct Data {
    struct Common {
      datasets::CodecChoice codec;
      static const options::Schema& schema();
    };
    datasets::ChosenSet<datasets::corpora, Common> text;
    Index masked = 20;
    double mask_share = 0.15;
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  Checkpoint<MaskedLanguageOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
