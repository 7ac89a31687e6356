#include "tasks/task.h"

#include <nlohmann/json.hpp>

namespace tandem::tasks {

Json Evaluation::details() const { return Json::object(); }

void Task::prepare(const amp::Plan&, Device) {}

}  // namespace tandem::tasks
