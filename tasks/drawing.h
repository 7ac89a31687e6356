// Drawing for the pictures of tasks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/png_write.h"
#include "data/transforms/render.h"

namespace tandem::tasks {

// A colour for each of 256 classes, those of PASCAL VOC: black, dark red, dark green, …; 255, which counts
// for nothing, is a light grey.
std::span<const datasets::Colour> class_colours();

// Grey [H,W,1] in three channels; [H,W,3] as it is. u8.
Tensor in_colours(const Tensor& image);

// Pixels as they were before normalisation, of image i of a batch [N,H,W,C]: u8 [H,W,C] on the host. `unit`
// is the value of full brightness.
Tensor pixels_of(const Tensor& images, Index i, const datasets::Affine& affine, float unit);

// Rows of pictures below each other, all of one size.
class PictureSheet {
 public:
  explicit PictureSheet(Index most) : most_(most) {}

  bool full() const { return static_cast<Index>(rows_.size()) >= most_; }
  // u8 [H,W,3] each; as many in every row. Of a full sheet nothing.
  void add(std::vector<Tensor> row);
  // A PNG file; "" when there are no rows. Small pictures are enlarged by a whole number.
  std::string png() const;

 private:
  Index most_;
  std::vector<std::vector<Tensor>> rows_;
};

}  // namespace tandem::tasks
