// Classification of texts: one class for each. Metrics: accuracy, top5 (with more than five classes), loss.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry text_classification_family();

}  // namespace tandem::tasks
