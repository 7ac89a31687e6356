// Families of tasks by name. A configuration names one, and the family describes the sections that are its
// own: see docs/add-a-task.md.
#pragma once

#include <cstdint>
#include <memory>

#include "core/options/registry.h"
#include "data/labelled_set.h"
#include "data/loading.h"
#include "tasks/task.h"

namespace tandem::tasks {

using datasets::SampleReport;

// What a task is told besides the options of its family.
struct Context {
  std::uint64_t seed = 1;  // of the run: weights, order, augmentation
  datasets::LoadingOptions loading;
  // A description saved with weights whose vocabularies the data takes in place of its own; absent: its own.
  std::shared_ptr<const Json> words_of{};
};

// A task that has yet to be made: a family with its options, checked.
class TaskFactory {
 public:
  virtual ~TaskFactory() = default;
  // What evaluations say.
  virtual const MetricKinds& metrics() const = 0;
  // Reads what the options name. Throws UserError for what is missing or wrong.
  virtual DataPtr open(SampleReport report) const = 0;
  // The same without reading, where that is possible; else by opening it.
  virtual DataPtr describe() const = 0;
  // From the description saved with weights. Throws UserError when it is damaged.
  virtual DataPtr recall(const Json& description) const = 0;
  // The task with a model whose weights are drawn from the seed. `data` is of this family. Throws
  // options::OptionError with the place in the configuration of what the model cannot be made with.
  virtual std::unique_ptr<Task> make(DataPtr data) const = 0;
};

using TaskRegistry = options::Registry<std::unique_ptr<TaskFactory>(const Context&)>;

// In the order documents list them; without a name it is classification.
const TaskRegistry& families();
// Makes a family of one's own known, before anything has asked for families(): a program that calls this and
// then does what `tandem` does has it in configurations. Throws InternalError afterwards.
void add_family(TaskRegistry::Entry entry);

}  // namespace tandem::tasks
