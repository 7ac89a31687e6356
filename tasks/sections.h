// Common keys of families, in sections that also have keys of the training loop.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/options/schema.h"

namespace tandem::tasks {

// "checkpoint" of a family with FamilyOptions::metrics(): the metric that selects the best epoch; default:
// the first.
template <class FamilyOptions>
struct Checkpoint {
  std::string best = FamilyOptions::metrics().front().first;

  static const options::Schema& schema() {
    static const options::Schema schema = [] {
      std::vector<std::string> names;
      for (const auto& [name, kind] : FamilyOptions::metrics()) names.push_back(name);
      return options::Describe<Checkpoint>().key(
          "best", &Checkpoint::best,
          "metric that selects `best`: on the validation split (data.validation_size), or without one on the "
          "test split, which makes the test metric optimistic",
          {.choices = std::move(names)});
    }();
    return schema;
  }
};

}  // namespace tandem::tasks
