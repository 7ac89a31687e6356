// Boxes of images in files: drawn into PNG files, and printed.
#pragma once

#include <vector>

#include "models/detector.h"
#include "tasks/detection/options.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

// Finds boxes in images of any size, which are brought to the model's whatever their proportions.
class BoxFinder {
 public:
  // The model lies on `device`, in evaluation mode; it and `data` are kept by reference.
  BoxFinder(models::Detector& model, const SampleData& data,
            const std::vector<datasets::TransformSpec>& augment, models::SuppressionOptions options,
            Device device);

  // u8 [H,W,C]. Boxes are in shares of the image's sides.
  std::vector<models::FoundBox> operator()(const Tensor& image) const;

 private:
  models::Detector& model_;
  const SampleData& data_;
  std::vector<datasets::TransformSpec> augment_;
  models::SuppressionOptions options_;
  Device device_;
};

// What `tandem predict` does: prints the boxes of a score from `shown`, or --threshold, on, and with --out
// draws them. Throws UserError naming the file that cannot be taken, and as picture_jobs.
void write_boxes(const BoxFinder& finder, const datasets::DatasetInfo& info,
                 const datasets::ImageReading& reading, double shown, const PredictRequest& request);

}  // namespace tandem::tasks
