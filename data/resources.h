// Resource files of Tandem: small data sets, and classifiers for the metrics of generated images.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tandem::datasets {

// Candidate places of a folder, in search order: below $TANDEM_DATA_DIR, ../share/tandem/data beside the
// program, data/ of the sources, and the installation's data folder.
std::vector<std::filesystem::path> shipped_places(const std::string& folder);

// The first of these that has `file`.
std::optional<std::filesystem::path> find_shipped(const std::string& folder, const std::string& file);

}  // namespace tandem::datasets
