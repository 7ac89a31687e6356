// Detection on image files: draws boxes into PNG files, and prints them.
#pragma once

#include <vector>

#include "models/detector.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

// Detects objects in images of any size, which are resized to the model's, ignoring aspect ratio.
class BoxFinder {
 public:
  // The model must be on `device`, in evaluation mode; keeps references to it and `data`.
  BoxFinder(models::Detector& model, const SampleData& data,
            const std::vector<datasets::TransformSpec>& augment, models::SuppressionOptions options,
            Device device);

  // u8 [H,W,C]. Boxes are relative to the image's sides.
  std::vector<models::FoundBox> operator()(const Tensor& image) const;

 private:
  models::Detector& model_;
  const SampleData& data_;
  std::vector<datasets::TransformSpec> augment_;
  models::SuppressionOptions options_;
  Device device_;
};

// Implements `tandem predict`: prints boxes with a score of at least `shown`, or --threshold, and with --out
// draws them. Throws UserError naming a file that cannot be used, and as picture_jobs.
void write_boxes(const BoxFinder& finder, const datasets::DatasetInfo& info,
                 const datasets::ImageReading& reading, double shown, const PredictRequest& request);

}  // namespace tandem::tasks
