#include "tasks/detection/box_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "autograd/ops/boxes.h"
#include "core/cpu/parallel.h"
#include "models/box_suppression.h"

namespace tandem::tasks {

namespace {

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

bool overlapped(const models::UnitBox& box, const std::vector<models::UnitBox>& anchors, float threshold) {
  return std::ranges::any_of(
      anchors, [&](const models::UnitBox& anchor) { return models::overlap_of(anchor, box) >= threshold; });
}

models::UnitBox box_of(const datasets::BoxObject& object, const datasets::BoxImage& image) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  const datasets::Corners& box = object.box;
  return {static_cast<float>(box.x1 / width), static_cast<float>(box.y1 / height),
          static_cast<float>(box.x2 / width), static_cast<float>(box.y2 / height)};
}

// The boxes of an image in the form of match_boxes, one class each; without slivers that have no area in f32.
Tensor rows_of(std::span<const models::UnitBox> boxes) {
  std::vector<float> rows;
  for (const models::UnitBox& box : boxes) {
    const bool there = box.x2 > box.x1 && box.y2 > box.y1;
    rows.insert(rows.end(), {box.x1, box.y1, box.x2, box.y2, there ? 1.0f : 0.0f});
  }
  return Tensor::from(rows, {1, static_cast<Index>(boxes.size()), 5});
}

}  // namespace

std::string BoxFit::text(double threshold) const {
  std::string text = fmt::format(
      "boxes of {:.0f} to {:.0f} pixels (10 % and 90 % quantiles), median {:.0f}; no anchor overlaps {:.1f} "
      "% of them by {}",
      tenth, nine_tenths, middle, 100 * uncovered, threshold);
  if (unmatched > 0) text += fmt::format("; no anchor learns {} of {}", unmatched, boxes);
  return text;
}

BoxFit fit_of(const datasets::BoxCorpus& corpus, const Tensor& anchors, Index side,
              const BoxMatchOptions& options, Index most_images) {
  const Tensor on_host = anchors.to(Device{});
  const std::vector<float> grid = on_host.to_vector<float>();
  std::vector<models::UnitBox> corners;
  for (std::size_t at = 0; at < grid.size(); at += 4)
    corners.push_back({grid[at] - grid[at + 2] / 2, grid[at + 1] - grid[at + 3] / 2,
                       grid[at] + grid[at + 2] / 2, grid[at + 1] + grid[at + 3] / 2});
  std::vector<models::UnitBox> boxes;
  std::vector<double> sizes;
  Index unmatched = 0;
  const auto images = static_cast<Index>(corpus.images.size());
  const Index step = std::max<Index>(1, (images + most_images - 1) / most_images);
  for (Index i = 0; i < images; i += step) {
    const datasets::BoxImage& image = corpus.images[static_cast<std::size_t>(i)];
    const std::size_t first = boxes.size();
    for (const datasets::BoxObject& object : image.objects) {
      boxes.push_back(box_of(object, image));
      const auto pixels = static_cast<double>(image.width) * static_cast<double>(image.height);
      sizes.push_back(static_cast<double>(side) * std::sqrt(object.box.area() / pixels));
    }
    if (boxes.size() == first) continue;
    const Tensor rows = rows_of(std::span(boxes).subspan(first));
    unmatched += *match_boxes(on_host, rows, options).unmatched.data<std::int32_t>();
  }
  if (boxes.empty()) return {};
  std::atomic<Index> uncovered = 0;
  cpu::parallel_for(true, static_cast<Index>(boxes.size()), [&](Index i) {
    uncovered += overlapped(boxes[static_cast<std::size_t>(i)], corners, options.threshold) ? 0 : 1;
  });
  std::ranges::sort(sizes);
  return {.boxes = static_cast<Index>(boxes.size()),
          .tenth = quantile(sizes, 0.1),
          .middle = quantile(sizes, 0.5),
          .nine_tenths = quantile(sizes, 0.9),
          .uncovered = static_cast<double>(uncovered) / static_cast<double>(boxes.size()),
          .unmatched = unmatched};
}

}  // namespace tandem::tasks
