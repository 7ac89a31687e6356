// Language models: predict the next word of a text.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry language_family();

}  // namespace tandem::tasks
