// Options of data of numbered samples in a configuration, alike for every family of a labelled set.
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
