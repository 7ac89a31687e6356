// Files that come with Tandem: small data sets, and classifiers that measure what networks make.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tandem::datasets {

// Where a folder of them may be, in the order in which it is looked for: below $TANDEM_DATA_DIR,
// ../share/tandem/data beside the program, data/ of the sources, and that of the installation.
std::vector<std::filesystem::path> shipped_places(const std::string& folder);

// The first of these that holds `file`; nothing when there is none.
std::optional<std::filesystem::path> find_shipped(const std::string& folder, const std::string& file);

}  // namespace tandem::datasets
