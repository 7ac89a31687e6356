// The files that a command is given to work on.
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

// A folder stands for the images in it and below; what else is there is said. Throws UserError when one is
// not there, or holds none.
std::vector<std::string> files_of(const std::vector<std::string>& paths);

}  // namespace tandem::tasks
