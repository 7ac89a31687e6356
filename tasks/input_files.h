// Input files of a command.
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

// A folder is replaced by the images in and below it; other files there are reported. Throws UserError for a
// path that does not exist, and for a folder without images.
std::vector<std::string> files_of(const std::vector<std::string>& paths);

}  // namespace tandem::tasks
