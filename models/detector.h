// Detector: the interface of object detectors. The task `detection` trains, evaluates and predicts through
// it.
#pragma once

#include <vector>

#include "models/box_suppression.h"
#include "models/model_kind.h"
#include "models/multibox.h"
#include "nn/exported.h"
#include "nn/module.h"

namespace tandem::models {

// Boxes are corners relative to their image's sides. A detector implements Module::forward_outputs: from
// images [N,H,W,C], and, if they are padded at the bottom and on the right, their sizes i64 [N,2] (rows,
// columns) in host memory, to arbitrary inputs of loss() and decode().
class Detector : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::detector;

  // Including the background, class 0.
  virtual Index classes() const = 0;

  // `sizes` as above, or absent: all images fill [H,W].
  TensorList outputs(const Tensor& images, const Tensor& sizes = {}) {
    return all_outputs(sizes.defined() ? TensorList{images, sizes} : TensorList{images});
  }
  // Training loss, an f32 scalar. `boxes` f32 [N,G,5] as (x1, y1, x2, y2, label), label 0 for padding. A
  // detector may ignore some of `options`.
  virtual Tensor loss(const TensorList& outputs, const Tensor& boxes, const MultiboxOptions& options) = 0;
  // Detections of each image, highest score first. Throws UserError naming the image if a score is NaN.
  virtual std::vector<std::vector<FoundBox>> decode(const TensorList& outputs,
                                                    const SuppressionOptions& options) = 0;

  // Number of terms of the mean in loss(), the weight of a part of a step; needs no synchronisation, because
  // `boxes` are in host memory. Default: the number of images.
  virtual Index loss_terms(const Tensor& boxes, const MultiboxOptions& options) const {
    (void)options;
    return boxes.size(0);
  }
  // Anchors that objects are matched with in every image, f32 [A,4] as (cx, cy, w, h) in host memory, to
  // report how the data fits them; absent: none.
  virtual Tensor fixed_anchors() const { return {}; }
  // For exports: images to "boxes" f32 [N,A,4] and "scores" [N,A,classes()] before suppression, by ops; empty
  // if unsupported.
  virtual nn::Forward graph() { return {}; }
};

}  // namespace tandem::models
