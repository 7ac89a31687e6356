// Data options shared by all families with labelled samples.
#pragma once

#include <vector>

#include "data/registry.h"
#include "data/transforms/transform.h"

namespace tandem::tasks {

struct SampleOptions {
  datasets::LabelledSetOptions set;
  std::vector<datasets::TransformSpec> augment;
  static const options::Schema& schema();
};

}  // namespace tandem::tasks
