// Task families by name. A configuration names one, and the family describes its own sections: see
// docs/add-a-task.md.
#pragma once

#include <cstdint>
#include <memory>

#include "core/options/registry.h"
#include "data/labelled_set.h"
#include "data/loading.h"
#include "tasks/task.h"

namespace tandem::tasks {

using datasets::SampleReport;

// Arguments of a task besides its options.
struct Context {
  std::uint64_t seed = 1;  // of the run: weights, order, augmentation
  datasets::LoadingOptions loading;
  // Saved description whose vocabularies replace the data's own; absent: its own.
  std::shared_ptr<const Json> words_of{};
};

// Factory of a task: a family with checked options.
class TaskFactory {
 public:
  virtual ~TaskFactory() = default;
  // Metrics of evaluations.
  virtual const MetricKinds& metrics() const = 0;
  // Reads the data that the options name. Throws UserError for missing or invalid data.
  virtual DataPtr open(SampleReport report) const = 0;
  // The same without reading if possible.
  virtual DataPtr describe() const = 0;
  // From the description saved with weights. Throws UserError for a damaged one.
  virtual DataPtr recall(const Json& description) const = 0;
  // The task with a model whose weights are drawn from the seed. `data` is of this family. Throws
  // options::OptionError with the place of an option that does not fit.
  virtual std::unique_ptr<Task> make(DataPtr data) const = 0;
};

using TaskRegistry = options::Registry<std::unique_ptr<TaskFactory>(const Context&)>;

// In the order of the documentation. Default: classification.
TaskRegistry& registry();

}  // namespace tandem::tasks
