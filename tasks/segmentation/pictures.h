// Drawing of masks: coloured, over their images, and in example sheets.
#pragma once

#include <string>

#include "core/tensor.h"
#include "tasks/drawing.h"

namespace tandem::tasks {

// All images are u8 [H,W,3], or grey [H,W,1], masks u8 [H,W]; results u8 [H,W,3].
Tensor coloured(const Tensor& mask);
// The image, half covered by the colours of all classes but the first.
Tensor overlay(const Tensor& image, const Tensor& mask);

// A sheet of examples; each row has image, truth and prediction.
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
