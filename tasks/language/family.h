// Language models: the next word of a text from those before it.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry language_family();

}  // namespace tandem::tasks
