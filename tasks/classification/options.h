// What a configuration says of a classifier.
#pragma once

#include <string>
#include <vector>

#include "data/registry.h"
#include "data/transforms/transform.h"
#include "models/model_options.h"
#include "tasks/classification/loss.h"

namespace tandem::tasks {

struct ClassificationOptions {
  struct Data {
    datasets::LabelledSetOptions set;
    std::vector<datasets::TransformSpec> augment;
    static const options::Schema& schema();
  };
  struct Evaluation {
    bool confusion = false;
    static const options::Schema& schema();
  };
  struct Checkpoint {
    std::string best = "accuracy";
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  options::Choice<classification_losses> loss;
  Evaluation eval;
  Checkpoint checkpoint;
  static options::Schema schema();
};

}  // namespace tandem::tasks
