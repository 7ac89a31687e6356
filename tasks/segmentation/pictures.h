// Masks to look at: in colours, over their images, beside each other.
#pragma once

#include <string>

#include "core/tensor.h"
#include "tasks/drawing.h"

namespace tandem::tasks {

// All images are u8 [H,W,3], or grey [H,W,1], masks u8 [H,W]; results u8 [H,W,3].
Tensor coloured(const Tensor& mask);
// The image, half covered by the colours of all classes but the first.
Tensor overlay(const Tensor& image, const Tensor& mask);

// A few examples below each other: image, truth and prediction of one are a row.
class ExampleSheet {
 public:
  explicit ExampleSheet(Index most) : sheet_(most) {}

  bool full() const { return sheet_.full(); }
  void add(const Tensor& image, const Tensor& truth, const Tensor& prediction);
  // See PictureSheet.
  std::string png() const { return sheet_.png(); }

 private:
  PictureSheet sheet_;
};

}  // namespace tandem::tasks
