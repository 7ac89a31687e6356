#include "tasks/detection/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "core/error.h"
#include "files/file_name.h"

namespace tandem::tasks {

namespace {

// Sorted by image and descending score. Throws UserError naming `format` for non-finite values.
std::vector<const metrics::Detection*> in_order(std::string_view format,
                                                std::span<const metrics::Detection> detections) {
  std::vector<const metrics::Detection*> result;
  for (const metrics::Detection& each : detections) {
    const metrics::PixelBox& box = each.box;
    const bool finite = std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.width) &&
                        std::isfinite(box.height) && std::isfinite(each.score);
    require(finite, format,
            "detection {} (image {}, category {}) has the box [{}, {}, {}, {}] and the score {}; only finite "
            "numbers can be written",
            &each - detections.data(), each.image, each.category, box.x, box.y, box.width, box.height,
            each.score);
    result.push_back(&each);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const metrics::Detection* a, const metrics::Detection* b) {
                     return a->image != b->image ? a->image < b->image : a->score > b->score;
                   });
  return result;
}

const std::string& name_of_image(const std::map<std::int64_t, std::string>& names, std::int64_t image) {
  const auto found = names.find(image);
  require(found != names.end(), "voc results",
          "image {} has detections and no name among the {} given; name it", image, names.size());
  const std::string& name = found->second;
  require(is_voc_id(name), "voc results", "image {} is called '{}'; the format needs a name of one word",
          image, name);
  return name;
}

}  // namespace

std::string coco_results(std::span<const metrics::Detection> detections) {
  std::string text = "[";
  for (const metrics::Detection* each : in_order("coco results", detections)) {
    const metrics::PixelBox& box = each->box;
    fmt::format_to(std::back_inserter(text),
                   "{}\n{{\"image_id\": {}, \"category_id\": {}, \"bbox\": [{:.9g}, {:.9g}, {:.9g}, {:.9g}], "
                   "\"score\": {:.9g}}}",
                   text.size() > 1 ? "," : "", each->image, each->category, box.x, box.y, box.width,
                   box.height, each->score);
  }
  return text + "\n]\n";
}

std::string voc_results_name(std::string_view class_name) {
  ensure(!class_name.empty(), "voc results", "a class without a name");
  return fmt::format("comp4_det_test_{}.txt", files::as_file_name(class_name));
}

bool is_voc_id(std::string_view image_name) {
  return !image_name.empty() && image_name.find_first_of(" \t\n\v\f\r") == std::string_view::npos;
}

std::string voc_results(std::span<const metrics::Detection> detections, std::int64_t category,
                        const std::map<std::int64_t, std::string>& image_names) {
  std::string text;
  for (const metrics::Detection* each : in_order("voc results", detections)) {
    if (each->category != category) continue;
    const metrics::PixelBox& box = each->box;
    fmt::format_to(std::back_inserter(text), "{} {:.9g} {:.9g} {:.9g} {:.9g} {:.9g}\n",
                   name_of_image(image_names, each->image), each->score, box.x + 1.0, box.y + 1.0,
                   box.x + box.width, box.y + box.height);
  }
  return text;
}

}  // namespace tandem::tasks
