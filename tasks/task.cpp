#include "tasks/task.h"

#include <nlohmann/json.hpp>

namespace tandem::tasks {

Json Evaluation::details() const { return Json::object(); }

}  // namespace tandem::tasks
