#include "metrics/by_category.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::metrics {

namespace {

// Ranks of ids. Consecutive lookups mostly have the same id.
class Ranks {
 public:
  // `kind`: e.g. "image". `metric` and `kind` must outlive this.
  Ranks(std::string_view metric, std::string_view kind, std::span<const std::int64_t> ids)
      : metric_(metric), kind_(kind), ids_(ids.begin(), ids.end()) {
    std::sort(ids_.begin(), ids_.end());
    const auto twice = std::adjacent_find(ids_.begin(), ids_.end());
    if (twice != ids_.end())
      throw UserError(metric,
                      fmt::format("every {} must be listed once, {} {} is listed twice", kind, kind, *twice));
  }

  // `named` describes the box for the error about an unlisted id.
  template <class Named>
  std::size_t of(std::int64_t id, const Named& named) {
    if (last_ < ids_.size() && ids_[last_] == id) return last_;
    const auto place = std::lower_bound(ids_.begin(), ids_.end(), id);
    if (place == ids_.end() || *place != id)
      throw UserError(
          metric_,
          fmt::format("{} has {} {}, which is not among the {} listed; list it, or leave the box out",
                      named(), kind_, id, ids_.size()));
    return last_ = static_cast<std::size_t>(place - ids_.begin());
  }

  const std::vector<std::int64_t>& ids() const { return ids_; }

 private:
  std::string_view metric_, kind_;
  std::vector<std::int64_t> ids_;
  std::size_t last_ = 0;
};

template <class Named>
void check_box(std::string_view metric, const PixelBox& box, const Named& named) {
  const bool finite =
      std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.width) && std::isfinite(box.height);
  if (!finite || box.width < 0.0 || box.height < 0.0)
    throw UserError(metric, fmt::format("{} has the box [{}, {}, {}, {}] (x, y, width, height); expected "
                                        "finite numbers and sizes of at least 0",
                                        named(), box.x, box.y, box.width, box.height));
}

void check_annotations(std::string_view metric, std::span<const TrueBox> boxes) {
  std::vector<std::int64_t> ids;
  ids.reserve(boxes.size());
  for (const TrueBox& box : boxes) ids.push_back(box.id);
  Ranks(metric, "annotation", ids);
}

void place_truth(std::string_view metric, std::span<const TrueBox> boxes, Ranks& images, Ranks& categories,
                 std::vector<CategoryBoxes>& result) {
  check_annotations(metric, boxes);
  for (const TrueBox& object : boxes) {
    const auto named = [&] { return fmt::format("annotation {} (image {})", object.id, object.image); };
    check_box(metric, object.box, named);
    if (!std::isfinite(object.area) || object.area < 0.0)
      throw UserError(metric, fmt::format("{} has the area {}; expected a finite number of at least 0",
                                          named(), object.area));
    const std::size_t image = images.of(object.image, named);
    result[categories.of(object.category, named)].truth.push_back({image, &object});
  }
  for (CategoryBoxes& boxes_of_one : result)
    std::stable_sort(boxes_of_one.truth.begin(), boxes_of_one.truth.end(),
                     [](const auto& a, const auto& b) { return a.image < b.image; });
}

}  // namespace

std::vector<CategoryBoxes> by_category(std::string_view metric, const GroundTruth& truth,
                                       std::span<const Detection> detections) {
  Ranks images(metric, "image", truth.images), categories(metric, "category", truth.categories);
  std::vector<CategoryBoxes> result;
  for (const std::int64_t id : categories.ids()) result.push_back({.category = id});
  place_truth(metric, truth.boxes, images, categories, result);
  for (const Detection& detection : detections) {
    const auto named = [&] {
      return fmt::format("detection {} (image {}, category {})", &detection - detections.data(),
                         detection.image, detection.category);
    };
    check_box(metric, detection.box, named);
    if (std::isnan(detection.score))
      throw UserError(metric, fmt::format("{} has the score NaN, which cannot be sorted; find its cause in "
                                          "the network, or leave the box out",
                                          named()));
    const std::size_t image = images.of(detection.image, named);
    result[categories.of(detection.category, named)].found.push_back({image, &detection});
  }
  return result;
}

}  // namespace tandem::metrics
