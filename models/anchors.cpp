#include "models/anchors.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/suggest.h"

namespace tandem::models {

namespace {

constexpr Index kCoordinates = 4;

struct PublishedGrid {
  const char* name;
  Index image_size;
  std::vector<Index> cells;
  std::vector<double> steps;     // empty: image size/cells
  std::array<double, 3> shares;  // first, low and high, in percent; all 0: the sizes of SSDLite
  std::size_t with_three;        // number of levels, from the second on, with the ratio 3 beside 2
};

const std::vector<PublishedGrid>& published() {
  static const std::vector<Index> cells300{38, 19, 10, 5, 3, 1}, cells512{64, 32, 16, 8, 4, 2, 1};
  static const std::vector<double> steps300{8, 16, 32, 64, 100, 300}, steps512{8, 16, 32, 64, 128, 256, 512};
  static const std::vector<PublishedGrid> grids{
      {"voc300", 300, cells300, steps300, {10, 20, 90}, 3},
      {"coco300", 300, cells300, steps300, {7, 15, 90}, 3},
      {"voc512", 512, cells512, steps512, {7, 15, 90}, 4},
      {"coco512", 512, cells512, steps512, {4, 10, 90}, 4},
      {"ssdlite320", 320, {20, 10, 5, 3, 2, 1}, {}, {0, 0, 0}, 6},
  };
  return grids;
}

std::vector<double> lite_sizes(double side) {
  std::vector<double> sizes;
  for (const double share : {0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0}) sizes.push_back(share * side);
  return sizes;
}

// Widths and heights of the boxes of a cell, in pixels.
std::vector<std::array<double, 2>> shapes_of(const AnchorLevel& level) {
  const double second = std::sqrt(level.size * level.next_size);
  std::vector<std::array<double, 2>> shapes{{level.size, level.size}, {second, second}};
  for (const double ratio : level.ratios) {
    const double wide = level.size * std::sqrt(ratio), narrow = level.size / std::sqrt(ratio);
    shapes.push_back({wide, narrow});
    shapes.push_back({narrow, wide});
  }
  return shapes;
}

void clip(std::array<double, 4>& box, AnchorClip rule) {
  const std::size_t first = rule == AnchorClip::wh ? 2 : 0;
  if (rule == AnchorClip::none) return;
  for (std::size_t i = first; i < box.size(); ++i) box[i] = std::clamp(box[i], 0.0, 1.0);
}

}  // namespace

Index AnchorGrid::count() const {
  Index boxes = 0;
  for (const AnchorLevel& level : levels) boxes += level.cells * level.cells * level.per_cell();
  return boxes;
}

Tensor AnchorGrid::boxes(AnchorClip rule) const {
  Tensor all = Tensor::empty({count(), kCoordinates});
  float* to = all.data<float>();
  const auto side = static_cast<double>(image_size);
  for (const AnchorLevel& level : levels) {
    const double step = level.step > 0.0 ? level.step : side / static_cast<double>(level.cells);
    const auto shapes = shapes_of(level);
    for (Index cell = 0; cell < level.cells * level.cells; ++cell) {
      const double x = (static_cast<double>(cell % level.cells) + 0.5) * step / side;
      const double y = (static_cast<double>(cell / level.cells) + 0.5) * step / side;
      for (const auto& [width, height] : shapes) {
        std::array<double, 4> box{x, y, width / side, height / side};
        clip(box, rule);
        to = std::ranges::transform(box, to, [](double value) { return static_cast<float>(value); }).out;
      }
    }
  }
  return all;
}

std::vector<double> anchor_sizes(Index image_size, Index levels, double first, double low, double high) {
  require(levels >= 3, "anchors", "sizes between two shares need at least three maps, got {}", levels);
  const double step = std::floor((high - low) / static_cast<double>(levels - 2));
  std::vector<double> sizes{first};
  for (Index level = 0; level < levels; ++level) sizes.push_back(low + static_cast<double>(level) * step);
  for (double& size : sizes) size *= static_cast<double>(image_size) / 100.0;
  return sizes;
}

AnchorGrid anchor_grid(std::string_view name) {
  const auto found = std::ranges::find(published(), name, &PublishedGrid::name);
  require(found != published().end(), "anchors", "there are no anchors \"{}\"{}", name,
          did_you_mean(name, anchor_grids()));
  const auto side = static_cast<double>(found->image_size);
  const std::vector<double> sizes =
      found->shares[0] > 0.0 ? anchor_sizes(found->image_size, static_cast<Index>(found->cells.size()),
                                            found->shares[0], found->shares[1], found->shares[2])
                             : lite_sizes(side);
  AnchorGrid grid{.image_size = found->image_size, .levels = {}};
  for (std::size_t i = 0; i < found->cells.size(); ++i) {
    const bool three = found->steps.empty() || (i > 0 && i <= found->with_three);
    grid.levels.push_back({.cells = found->cells[i],
                           .step = found->steps.empty() ? 0.0 : found->steps[i],
                           .size = sizes[i],
                           .next_size = sizes[i + 1],
                           .ratios = three ? std::vector<double>{2, 3} : std::vector<double>{2}});
  }
  return grid;
}

std::vector<std::string> anchor_grids() {
  std::vector<std::string> names;
  for (const PublishedGrid& grid : published()) names.emplace_back(grid.name);
  return names;
}

}  // namespace tandem::models
