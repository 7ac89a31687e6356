// Drawing functions for the pictures of tasks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/png_write.h"
#include "data/transforms/render.h"

namespace tandem::tasks {

// Colours of 256 classes from PASCAL VOC: black, dark red, dark green, …; 255, ignored, is light grey.
std::span<const datasets::Colour> class_colours();

// Expands grey [H,W,1] to three channels; returns [H,W,3] unchanged. u8.
Tensor in_colours(const Tensor& image);

// Pixels before normalisation of image i of a batch [N,H,W,C]: u8 [H,W,C] on the host. `unit` is the value of
// full brightness.
Tensor pixels_of(const Tensor& images, Index i, const datasets::Affine& affine, float unit);

// Sheet of pictures in rows, all of one size.
class PictureSheet {
 public:
  explicit PictureSheet(Index most) : most_(most) {}

  bool full() const { return static_cast<Index>(rows_.size()) >= most_; }
  // u8 [H,W,3] each; the same number in every row. Ignored once the sheet is full.
  void add(std::vector<Tensor> row);
  // A PNG file; "" without rows. Small pictures are enlarged by a whole number.
  std::string png() const;

 private:
  Index most_;
  std::vector<std::vector<Tensor>> rows_;
};

}  // namespace tandem::tasks
