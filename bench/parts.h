// What bench_worker measures besides steps of training: parts of tasks, each the work that a step of it is.
// Their numbers are made up (bench/made_up.h) as those of bench/pytorch_parts.py are, and so are the figures
// that steps return.
#pragma once

#include <utility>

#include "bench/training.h"

namespace tandem::bench {

class Part final : public Training {
 public:
  // `work` returns a figure that depends on all that it has done.
  Part(Index items, std::function<double()> work) : items_(items), work_(std::move(work)) {}

  std::vector<double> step() override { return {work_()}; }
  Index items() const override { return items_; }
  std::int64_t update_bytes() const override { return 0; }

 private:
  Index items_;
  std::function<double()> work_;
};

// Matching of 7 objects in each of 8 images with SSD300's 8732 anchors, and coding. Anchors with an object.
TrainingPtr ssd_matching();
// From 8 × 8732 scores of 81 classes, codes and matched anchors to the loss and its gradients. The loss.
TrainingPtr ssd_loss();
// From the scores and codes of an image, 1000 of them candidates, to its boxes. Their number.
TrainingPtr ssd_nms();
// COCO's figures of 100 detections in each of 500 images, 80 categories. AP.
TrainingPtr coco_metric();
// 32 photographs of bench/made_up_photos.py, in TANDEM_BENCH_FILES, from files to a batch of SSD's training,
// by one thread. Objects that are left.
TrainingPtr ssd_loader();

}  // namespace tandem::bench
