#include "tasks/detection/box_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tasks/detection/suppression.h"

namespace tandem::tasks {

namespace {

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

bool overlapped(const UnitBox& box, const std::vector<UnitBox>& anchors, double threshold) {
  return std::ranges::any_of(anchors,
                             [&](const UnitBox& anchor) { return overlap_of(anchor, box) >= threshold; });
}

}  // namespace

std::string BoxFit::text(double threshold) const {
  return fmt::format(
      "boxes of {:.0f} to {:.0f} pixels (from a tenth to nine tenths), {:.0f} in the middle; no anchor "
      "overlaps "
      "{:.1f} % of them by {}",
      tenth, nine_tenths, middle, 100 * unmatched, threshold);
}

BoxFit fit_of(const datasets::BoxCorpus& corpus, const Tensor& anchors, Index side, double threshold,
              Index most_images) {
  const std::vector<float> grid = anchors.to_vector<float>();
  std::vector<UnitBox> corners;
  for (std::size_t at = 0; at < grid.size(); at += 4)
    corners.push_back({grid[at] - grid[at + 2] / 2, grid[at + 1] - grid[at + 3] / 2,
                       grid[at] + grid[at + 2] / 2, grid[at + 1] + grid[at + 3] / 2});
  std::vector<UnitBox> boxes;
  std::vector<double> sizes;
  const auto images = static_cast<Index>(corpus.images.size());
  const Index step = std::max<Index>(1, (images + most_images - 1) / most_images);
  for (Index i = 0; i < images; i += step) {
    const datasets::BoxImage& image = corpus.images[static_cast<std::size_t>(i)];
    const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
    for (const datasets::BoxObject& object : image.objects) {
      const datasets::Corners& box = object.box;
      boxes.push_back({static_cast<float>(box.x1 / width), static_cast<float>(box.y1 / height),
                       static_cast<float>(box.x2 / width), static_cast<float>(box.y2 / height)});
      sizes.push_back(static_cast<double>(side) * std::sqrt(box.area() / (width * height)));
    }
  }
  if (boxes.empty()) return {};
  Index unmatched = 0;
#pragma omp parallel for schedule(static) reduction(+ : unmatched)
  for (std::size_t i = 0; i < boxes.size(); ++i)
    unmatched += overlapped(boxes[i], corners, threshold) ? 0 : 1;
  std::ranges::sort(sizes);
  return {.boxes = static_cast<Index>(boxes.size()),
          .tenth = quantile(sizes, 0.1),
          .middle = quantile(sizes, 0.5),
          .nine_tenths = quantile(sizes, 0.9),
          .unmatched = static_cast<double>(unmatched) / static_cast<double>(boxes.size())};
}

}  // namespace tandem::tasks
