#include "data/resources.h"

#include <cstdlib>

#include "files/input.h"

namespace tandem::datasets {

namespace fs = std::filesystem;

std::vector<fs::path> shipped_places(const std::string& folder) {
  std::vector<fs::path> places;
  if (const char* chosen = std::getenv("TANDEM_DATA_DIR")) places.push_back(fs::path(chosen) / folder);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) places.push_back(program.parent_path().parent_path() / "share" / "tandem" / "data" / folder);
  places.push_back(fs::path(TANDEM_SOURCE_DIR) / "data" / folder);
  places.push_back(fs::path(TANDEM_INSTALL_DATA_DIR) / folder);
  return places;
}

std::optional<fs::path> find_shipped(const std::string& folder, const std::string& file) {
  for (const fs::path& place : shipped_places(folder))
    if (files::kind_of(place / file) != files::Kind::absent) return place;
  return {};
}

}  // namespace tandem::datasets
