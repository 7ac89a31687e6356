#include "tasks/task.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tandem::tasks {

Json Evaluation::details() const { return Json::object(); }

optim::PartWeight Task::measured_weight(const datasets::Batch&) const {
  throw InternalError("task", "this task has nothing to measure of a batch");
}

}  // namespace tandem::tasks
