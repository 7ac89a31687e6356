#include "metrics/voc.h"

#include <algorithm>
#include <array>

#include "core/cpu/parallel.h"
#include "metrics/by_category.h"
#include "metrics/overlap.h"

namespace tandem::metrics {

namespace {

constexpr double kVocOverlap = 0.5;
// MATLAB's 0:0.1:1, computed from both ends: 3·0.1, but 1 − 4·0.1.
constexpr std::array<double, 11> kVocRecalls = {0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5, 0.6, 0.7,
                                                0.8, 0.9, 1.0};

using ObjectPlace = std::vector<CategoryBoxes::True>::const_iterator;

// The object in the image of `found` with the greatest sufficient overlap; `truth.end()` if there is none.
ObjectPlace overlapped(const std::vector<CategoryBoxes::True>& truth, const CategoryBoxes::Found& found) {
  ObjectPlace result = truth.end();
  double most = 0.0;
  ObjectPlace object =
      std::lower_bound(truth.begin(), truth.end(), found.image,
                       [](const auto& each, std::size_t image) { return each.image < image; });
  for (; object != truth.end() && object->image == found.image; ++object) {
    const double overlap = intersection_over_union(found.detection->box, object->object->box);
    if (overlap > most) {
      most = overlap;
      result = object;
    }
  }
  return most >= kVocOverlap ? result : truth.end();
}

// A point for every detection; the precision is 0 before the first right one.
std::vector<VocPoint> curve_of(const CategoryBoxes& boxes, std::int64_t objects) {
  std::vector<CategoryBoxes::Found> found = boxes.found;
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.detection->score > b.detection->score; });
  std::vector<bool> taken(boxes.truth.size());
  std::vector<VocPoint> curve;
  std::int64_t right = 0, wrong = 0;
  for (const CategoryBoxes::Found& each : found) {
    const ObjectPlace object = overlapped(boxes.truth, each);
    if (object == boxes.truth.end()) {
      ++wrong;
    } else if (!object->object->difficult) {
      const auto place = static_cast<std::size_t>(object - boxes.truth.begin());
      ++(taken[place] ? wrong : right);
      taken[place] = true;
    }
    const auto hits = static_cast<double>(right);
    curve.push_back({.score = each.detection->score,
                     .recall = hits / static_cast<double>(objects),
                     .precision = right > 0 ? hits / static_cast<double>(right + wrong) : 0.0});
  }
  return curve;
}

double eleven_point(const std::vector<VocPoint>& curve) {
  double sum = 0.0;
  for (const double recall : kVocRecalls) {
    double greatest = 0.0;
    for (const VocPoint& point : curve)
      if (point.recall >= recall) greatest = std::max(greatest, point.precision);
    sum += greatest / double{kVocRecalls.size()};
  }
  return sum;
}

double area_below(const std::vector<VocPoint>& curve) {
  double sum = 0.0, greatest = 0.0;  // greatest: of points i and later
  for (std::size_t i = curve.size(); i-- > 0;) {
    greatest = std::max(greatest, curve[i].precision);
    sum += (curve[i].recall - (i > 0 ? curve[i - 1].recall : 0.0)) * greatest;
  }
  return sum;
}

VocClass measure_class(const CategoryBoxes& boxes, bool curves) {
  VocClass result{.id = boxes.category};
  result.objects = std::count_if(boxes.truth.begin(), boxes.truth.end(),
                                 [](const auto& each) { return !each.object->difficult; });
  if (result.objects == 0) return result;
  std::vector<VocPoint> curve = curve_of(boxes, result.objects);
  result.figures = {.eleven_point = eleven_point(curve), .area = area_below(curve)};
  if (curves) result.curve = std::move(curve);
  return result;
}

}  // namespace

VocResult evaluate_voc(const GroundTruth& truth, std::span<const Detection> detections,
                       const VocOptions& options) {
  const std::vector<CategoryBoxes> boxes = by_category("voc", truth, detections);
  VocResult result{.classes = std::vector<VocClass>(boxes.size())};
  cpu::parallel_for(true, boxes.size(),
                    [&](std::size_t i) { result.classes[i] = measure_class(boxes[i], options.curves); });
  VocFigures sum;
  double count = 0.0;
  for (const VocClass& each : result.classes) {
    if (!each.figures) continue;
    sum.eleven_point += each.figures->eleven_point;
    sum.area += each.figures->area;
    ++count;
  }
  if (count > 0.0) result.mean = VocFigures{sum.eleven_point / count, sum.area / count};
  return result;
}

}  // namespace tandem::metrics
