// Masks to look at: in colours, over their images, beside each other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/png_write.h"

namespace tandem::tasks {

// A colour for each of 256 classes, those of PASCAL VOC: black, dark red, dark green, …; 255, which counts
// for nothing, is a light grey.
std::span<const datasets::Colour> class_colours();

// All images are u8 [H,W,3], or grey [H,W,1], masks u8 [H,W]; results u8 [H,W,3].
Tensor coloured(const Tensor& mask);
// The image, half covered by the colours of all classes but the first.
Tensor overlay(const Tensor& image, const Tensor& mask);

// A few examples below each other: image, truth and prediction of one are a row.
class ExampleSheet {
 public:
  explicit ExampleSheet(Index most) : most_(most) {}

  bool full() const { return static_cast<Index>(rows_.size()) >= most_; }
  void add(const Tensor& image, const Tensor& truth, const Tensor& prediction);
  // A PNG file; "" when there are no examples. Small pictures are enlarged by a whole number.
  std::string png() const;

 private:
  Index most_;
  std::vector<std::vector<Tensor>> rows_;
};

}  // namespace tandem::tasks
