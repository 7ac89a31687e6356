// Shared parts of the families' factories: see docs/add-a-task.md.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tasks/registry.h"

namespace tandem::tasks {

// The factory of a TaskT, which is constructed from an OptionsT, a Context and a DataT; subclasses open and
// describe the data. OptionsT has static schema() and metrics(), DataT a static recall().
template <class TaskT, class OptionsT, class DataT>
class TaskFactoryOf : public TaskFactory {
 public:
  using Options = OptionsT;
  TaskFactoryOf(const Options& options, const Context& context) : options_(options), context_(context) {}

  const MetricKinds& metrics() const override { return Options::metrics(); }
  DataPtr recall(const Json& description) const override { return DataT::recall(description); }
  std::unique_ptr<Task> make(DataPtr data) const override {
    return std::make_unique<TaskT>(options_, context_,
                                   std::static_pointer_cast<const DataT>(std::move(data)));
  }

 protected:
  const Options& options() const { return options_; }
  const Context& context() const { return context_; }

 private:
  Options options_;
  Context context_;
};

// The family with the factory RecipeT, derived from TaskFactoryOf.
template <class RecipeT>
TaskRegistry::Entry family_of(std::string name, std::string help) {
  using Options = typename RecipeT::Options;
  return TaskRegistry::entry<Options>(
      std::move(name), std::move(help), Options::schema(),
      [](const Options& options, const Context& context) -> std::unique_ptr<TaskFactory> {
        return std::make_unique<RecipeT>(options, context);
      });
}

}  // namespace tandem::tasks
