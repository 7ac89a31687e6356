// Classification: one class for each sample. Metrics: accuracy, top5 (with more than five classes), loss.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry classification_family();

}  // namespace tandem::tasks
