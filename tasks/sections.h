// Keys that families describe alike, in sections that the loop has keys in, too.
#pragma once

#include <string>
#include <vector>

#include "core/options/schema.h"
#include "tasks/metrics.h"

namespace tandem::tasks {

// "checkpoint": by which of its figures a family chooses the best epoch.
template <class T>
options::Describe<T> describe_best(std::string T::*best, const MetricKinds& figures) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : figures) names.push_back(name);
  options::Describe<T> keys;
  keys.key("best", best,
           "by what `best` is chosen: on the validation split (data.validation_size), or where there is "
           "none on the "
           "test split, which makes that figure optimistic",
           {.choices = std::move(names)});
  return keys;
}

}  // namespace tandem::tasks
