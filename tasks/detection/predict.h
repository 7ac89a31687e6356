// Boxes of images in files: drawn into PNG files, and printed.
#pragma once

#include <vector>

#include "models/ssd.h"
#include "tasks/detection/options.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

// Finds boxes in images of any size, which are brought to the model's whatever their proportions.
class Detector {
 public:
  // The model lies on `device`, in evaluation mode; it and `data` are kept by reference.
  Detector(models::Ssd& model, const SampleData& data, const std::vector<datasets::TransformSpec>& augment,
           SuppressionOptions options, Device device);

  // u8 [H,W,C]. Boxes are in shares of the image's sides.
  std::vector<FoundBox> operator()(const Tensor& image) const;

 private:
  models::Ssd& model_;
  const SampleData& data_;
  std::vector<datasets::TransformSpec> augment_;
  SuppressionOptions options_;
  Device device_;
};

// What `tandem predict` does: prints the boxes of a score from `shown`, or --threshold, on, and with --out
// draws them. Throws UserError naming the file that cannot be taken, and as picture_jobs.
void write_boxes(const Detector& detector, const datasets::DatasetInfo& info,
                 const datasets::ImageReading& reading, double shown, const PredictRequest& request);

}  // namespace tandem::tasks
