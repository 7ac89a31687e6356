// Keys that families describe alike, in sections that the loop has keys in, too.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/options/schema.h"
#include "tasks/metrics.h"

namespace tandem::tasks {

// "checkpoint" of a family that says FamilyOptions::metrics(): by which of them it chooses the best epoch,
// the first unless a configuration names another.
template <class FamilyOptions>
struct Checkpoint {
  std::string best = FamilyOptions::metrics().front().first;

  static const options::Schema& schema() {
    static const options::Schema schema = [] {
      std::vector<std::string> names;
      for (const auto& [name, kind] : FamilyOptions::metrics()) names.push_back(name);
      return options::Describe<Checkpoint>().key(
          "best", &Checkpoint::best,
          "by what `best` is chosen: on the validation split (data.validation_size), or where there is "
          "none on the "
          "test split, which makes that figure optimistic",
          {.choices = std::move(names)});
    }();
    return schema;
  }
};

}  // namespace tandem::tasks
