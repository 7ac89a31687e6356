// Streaming reader of COCO instances (JSON). Memory holds a chunk of the file, its longest text, and the
// fields of each annotation without its segmentation.
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

// Lists in the order of the file.
struct CocoFile {
  std::vector<CocoImage> images;
  std::vector<CocoAnnotation> annotations;
  std::vector<CocoCategory> categories;
};

// Reads "images", "annotations" and "categories" in any order; ignores other keys, "segmentation" in any
// form, and null. "iscrowd" and "area" are optional. Throws UserError that names the file and the item
// ("annotations, item 17 (id 918)") for invalid JSON, missing, repeated or mistyped fields, and invalid
// sizes.
CocoFile read_coco_file(const std::filesystem::path& path, std::size_t longest = BoundedInput::kLongest);

}  // namespace tandem::datasets
