// Segmentation of image files: writes masks as PNG files with a palette, and prints their classes.
#pragma once

#include <vector>

#include "data/transforms/transform.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

// Returns a mask of the image's own size for any image. Preprocessing is that of evaluation, but without
// cropping: if the data's images are resized, so is the image, and the mask is resized back; otherwise the
// image is only padded with the mean on the right and below as the model needs.
class Segmenter {
 public:
  // The model must be on `device`, in evaluation mode; keeps references to it and `data`.
  Segmenter(nn::Module& model, const SampleData& data, const std::vector<datasets::TransformSpec>& augment,
            Device device);

  // u8 [H,W,C] → u8 [H,W]. Throws UserError for a size that the model cannot process.
  Tensor operator()(const Tensor& image) const;

 private:
  Shape taken_for(const Shape& prepared) const;

  nn::Module& model_;
  const SampleData& data_;
  std::vector<datasets::TransformSpec> transforms_;
  Device device_;
};

// Implements `tandem predict`. Throws UserError naming a file that cannot be used, and for an --out that does
// not fit all masks, or would replace an image.
void write_masks(const Segmenter& segmenter, const datasets::DatasetInfo& info,
                 const datasets::ImageReading& reading, const PredictRequest& request);

}  // namespace tandem::tasks
