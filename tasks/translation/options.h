// Options of a translation task.
#pragma once

#include <optional>

#include "data/text/pair_registry.h"
#include "models/model_options.h"
#include "tasks/metrics.h"
#include "tasks/sections.h"
#include "tasks/sequence/beam_search.h"

namespace tandem::tasks {

struct TranslationOptions {
  struct Data {
    datasets::PairDataOptions pairs;
    Index batch_tokens = 0;  // pieces of the longer side, padded, instead of a number of pairs; 0: batch_size
                             // pairs
    static const options::Schema& schema();
  };
  struct Loss {
    double label_smoothing = 0.1;
    static const options::Schema& schema();
  };
  // Beam search of evaluations and predictions.
  struct Evaluation {
    Index beam = 5;
    std::optional<Index> max_length{};  // absent: data.max_length plus the end
    double length_penalty = BeamOptions{}.length_penalty;
    std::optional<double> coverage_penalty{};  // absent: auto, BeamOptions' or 0 without attention
    bool translations = false;                 // write them after the last evaluation
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  Loss loss;
  Evaluation eval;
  Checkpoint<TranslationOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
