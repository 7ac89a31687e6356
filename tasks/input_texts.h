// The texts that a command is given to work on.
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

// An input that names a file stands for its lines, any other one for itself. Throws UserError for files that
// cannot be read, and for what is no UTF-8.
std::vector<std::string> texts_of(const std::vector<std::string>& inputs);

}  // namespace tandem::tasks
