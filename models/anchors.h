// Anchors of SSD (Liu et al. 2016): boxes of several sizes and shapes around the centre of every cell of
// several maps, which a detector shifts and scales to objects.
#pragma once

#include <string_view>
#include <vector>

#include "core/shape.h"
#include "core/tensor.h"

namespace tandem::models {

// Anchors of one map, in pixels of an image of `image_size`².
struct AnchorLevel {
  Index cells = 1;             // of the map, per side
  double step = 0.0;           // between centres; 0: image size/cells
  double size = 0.0;           // of the small square
  double next_size = 0.0;      // the second square has the size √(size·next_size)
  std::vector<double> ratios;  // each gives two boxes with the small square's area, wide and high
  Index per_cell() const { return 2 + 2 * static_cast<Index>(ratios.size()); }
};

// Treatment of anchors beyond the image's border, which differs between implementations.
enum class AnchorClip : std::uint8_t {
  none,    // unchanged: SSD's own Caffe, MMDetection
  wh,      // width and height at most 1: torchvision
  cxcywh,  // centre, width and height within [0,1]: NVIDIA's and MLPerf's SSD
};

struct AnchorGrid {
  Index image_size = 300;
  std::vector<AnchorLevel> levels;

  Index count() const;
  // f32 [count(),4] as (cx, cy, w, h) relative to the image: by level, row and cell; in a cell the small
  // square, the second one, then for each ratio a the boxes (size·√a, size/√a) and (size/√a, size·√a).
  Tensor boxes(AnchorClip clip = AnchorClip::cxcywh) const;
};

// Sizes between two shares of the image in even steps of whole percents, as in SSD's configurations: the
// first level has `first`, the next ones low, low + step, … with step = ⌊(high - low)/(levels - 2)⌋; the list
// has one more entry, the last level's next size. Percents of `image_size`. Throws UserError for less than
// three levels.
std::vector<double> anchor_sizes(Index image_size, Index levels, double first, double low, double high);

// The published grids: "voc300", "coco300", "voc512", "coco512", "ssdlite320". Throws UserError for another
// name, with the nearest.
AnchorGrid anchor_grid(std::string_view name);
std::vector<std::string> anchor_grids();

// A detector's output for every anchor.
struct AnchorOutput {
  Tensor scores;  // class logits [N,A,K]; class 0 is the background
  Tensor codes;   // [N,A,4], encoded boxes (autograd/ops/boxes.h)
};

}  // namespace tandem::models
