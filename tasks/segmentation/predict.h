// Masks of images in files: written as PNG files with a palette, and what they hold printed.
#pragma once

#include <vector>

#include "data/transforms/transform.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

// Gives images of any size a mask of their own size. What evaluation does to an image is done to it, except
// that nothing is cut off: it is resized where the data's images are, and the mask is brought back; where
// they are not, it is taken as it is, with a rim of the mean on the right and below as far as the model needs
// one.
class Segmenter {
 public:
  // The model lies on `device`, in evaluation mode; it and `data` are kept by reference.
  Segmenter(nn::Module& model, const SampleData& data, const std::vector<datasets::TransformSpec>& augment,
            Device device);

  // u8 [H,W,C] → u8 [H,W]. Throws UserError when the model cannot take images of that size.
  Tensor operator()(const Tensor& image) const;

 private:
  Shape taken_for(const Shape& prepared) const;

  nn::Module& model_;
  const SampleData& data_;
  std::vector<datasets::TransformSpec> transforms_;
  Device device_;
};

// What `tandem predict` does. Throws UserError naming the file that cannot be taken, and for an --out that
// would not hold all of the masks, or would replace an image.
void write_masks(const Segmenter& segmenter, const datasets::DatasetInfo& info,
                 const datasets::ImageReading& reading, const PredictRequest& request);

}  // namespace tandem::tasks
