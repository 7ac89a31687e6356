// Anchors of SSD (Liu et al. 2016): boxes of several sizes and shapes around the centre of every cell of
// several maps, which a detector moves and stretches to where objects are.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "core/tensor.h"

namespace tandem::models {

// Of one map. Units are pixels of an image of `image_size`².
struct AnchorLevel {
  Index cells = 1;             // of the map, along each side
  double step = 0.0;           // from centre to centre; 0: image size/cells
  double size = 0.0;           // of the small square
  double next_size = 0.0;      // a square of √(size·next_size) comes second
  std::vector<double> ratios;  // each gives two boxes of the small square's area, wide and high
  Index per_cell() const { return 2 + 2 * static_cast<Index>(ratios.size()); }
};

// Anchors reach over the image's border; what is done about it differs from code to code.
enum class AnchorClip : std::uint8_t {
  none,    // nothing: SSD's own Caffe, MMDetection
  wh,      // width and height at most 1: torchvision
  cxcywh,  // centre, width and height within [0,1]: NVIDIA's and MLPerf's SSD
};

struct AnchorGrid {
  Index image_size = 300;
  std::vector<AnchorLevel> levels;

  Index count() const;
  // f32 [count(),4] as (cx, cy, w, h) in shares of the image: level by level, row by row, cell by cell; in a
  // cell the small square, the second one, then for each ratio a the boxes (size·√a, size/√a) and (size/√a,
  // size·√a).
  Tensor boxes(AnchorClip clip = AnchorClip::cxcywh) const;
};

// Sizes between two shares of the image in even steps of whole percents, as SSD's configurations have them:
// the first level has `first`, the next ones low, low + step, … with step = ⌊(high - low)/(levels - 2)⌋; the
// last of the list closes the last level. Percents of `image_size`. Throws UserError for less than three
// levels.
std::vector<double> anchor_sizes(Index image_size, Index levels, double first, double low, double high);

// "voc300", "coco300", "voc512", "coco512", "ssdlite320": the published ones. Throws UserError for another
// name, with the nearest.
AnchorGrid anchor_grid(std::string_view name);
std::vector<std::string> anchor_grids();

// What a detector says of every anchor.
struct AnchorOutput {
  Tensor scores;  // logits of the classes [N,A,K], class 0 being the background
  Tensor codes;   // [N,A,4], where the object lies (autograd/ops/boxes.h)
};

}  // namespace tandem::models
