// The JSON of COCO's instances (and of sets of others in that form), read as a stream: of the file no more
// is in memory than a chunk and the longest text in it; of what it says, the numbers of each annotation but
// those of its segmentation.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"
#include "data/boxes/bounded_input.h"

namespace tandem::datasets {

struct CocoImage {
  std::int64_t id = 0;
  std::string file_name;  // may have folders
  Index width = 0, height = 0;
};

struct CocoAnnotation {
  std::int64_t id = 0, image = 0, category = 0;
  std::array<double, 4> bbox{};  // x, y, width, height; pixels, continuous, 0-based
  std::optional<double> area{};
  bool crowd = false;
};

struct CocoCategory {
  std::int64_t id = 0;
  std::string name;
};

// Each in the order of the file.
struct CocoFile {
  std::vector<CocoImage> images;
  std::vector<CocoAnnotation> annotations;
  std::vector<CocoCategory> categories;
};

// "images", "annotations" and "categories" in any order; other keys are passed over, as are "segmentation",
// whatever its form, and null. "iscrowd" may be missing, and "area". Throws UserError naming the file and the
// item ("annotations, item 17 (id 918)"): no JSON, what is missing, stands twice or is of another type, a
// size that is none.
CocoFile read_coco_file(const std::filesystem::path& path, std::size_t longest = BoundedInput::kLongest);

}  // namespace tandem::datasets
