// Parts of tasks that bench_worker measures besides training steps; a step does the part's work once. Inputs
// are synthetic (bench/synthetic.h) and equal those of bench/pytorch_parts.py, as do the results.
#pragma once

#include <utility>

#include "bench/training.h"

namespace tandem::bench {

class Part final : public Training {
 public:
  // `work` returns a figure that depends on all of its results.
  Part(Index items, std::function<double()> work) : items_(items), work_(std::move(work)) {}

  std::vector<double> step() override { return {work_()}; }
  Index items() const override { return items_; }
  std::int64_t update_bytes() const override { return 0; }

 private:
  Index items_;
  std::function<double()> work_;
};

// Matching of 7 objects in each of 8 images with SSD300's 8732 anchors, and coding. Returns the number of
// anchors with an object.
TrainingPtr ssd_matching();
// Loss and gradients from 8 × 8732 scores of 81 classes, codes and matched anchors. Returns the loss.
TrainingPtr ssd_loss();
// Boxes of an image from scores and codes, with 1000 candidates. Returns the number of boxes.
TrainingPtr ssd_nms();
// COCO metric of 100 detections in each of 500 images, 80 categories. Returns AP.
TrainingPtr coco_metric();
// 32 photographs of bench/synthetic_photos.py, in TANDEM_BENCH_FILES, from files to a batch of SSD's
// training, on one thread. Returns the number of remaining objects.
TrainingPtr ssd_loader();

}  // namespace tandem::bench
