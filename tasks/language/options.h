// Options of a language task.
#pragma once

#include <optional>

#include "data/text/registry.h"
#include "models/model_options.h"
#include "tasks/metrics.h"
#include "tasks/sections.h"

namespace tandem::tasks {

// Metrics of character models only.
inline constexpr const char* kBitsPerCharacter = "bits_per_character";
inline constexpr const char* kBitsPerByte = "bits_per_byte";

struct LanguageOptions {
  struct Data {
    datasets::TextOptions text;
    std::optional<Index> steps{};  // words of a stream or window per batch; absent: see Language::steps
    bool random_steps = false;     // see datasets::StreamOptions
    static const options::Schema& schema();
  };
  struct Loss {
    double label_smoothing = 0.0;
    double ar = 0.0, tar = 0.0;  // see penalised
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  Loss loss;
  Checkpoint<LanguageOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
