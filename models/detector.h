// Detector: the interface of models that find objects in images. The task `detection` trains, evaluates and
// predicts through it.
#pragma once

#include <vector>

#include "models/box_suppression.h"
#include "models/model_kind.h"
#include "models/multibox.h"
#include "nn/exported.h"
#include "nn/module.h"

namespace tandem::models {

// Boxes are corners in shares of their image's sides. A detector implements Module::forward_outputs: images
// [N,H,W,C] and, where they differ in size and are padded at the bottom and on the right, their rows and
// columns, i64 [N,2] in host memory, to whatever loss() and decode() start from.
class Detector : public nn::Module {
 public:
  static constexpr ModelKind kind = ModelKind::detector;

  // The background, class 0, included.
  virtual Index classes() const = 0;

  // `sizes` as above, or absent: all images fill [H,W].
  TensorList outputs(const Tensor& images, const Tensor& sizes = {}) {
    return all_outputs(sizes.defined() ? TensorList{images, sizes} : TensorList{images});
  }
  // What training minimises, an f32 scalar. `boxes` f32 [N,G,5] as (x1, y1, x2, y2, label), label 0 where
  // there is no object. Of `options` a detector takes what it has a use for.
  virtual Tensor loss(const TensorList& outputs, const Tensor& boxes, const MultiboxOptions& options) = 0;
  // The boxes of each image, the surest first. Throws UserError naming the image where a score is no number.
  virtual std::vector<std::vector<FoundBox>> decode(const TensorList& outputs,
                                                    const SuppressionOptions& options) = 0;

  // The number of terms that loss() is the mean over, by which parts of a step count, without waiting for a
  // device: `boxes` lie in host memory. Unless overridden, of images.
  virtual Index loss_terms(const Tensor& boxes, const MultiboxOptions& options) const {
    (void)options;
    return boxes.size(0);
  }
  // Boxes that objects are matched with in every image, f32 [A,4] as (cx, cy, w, h) in host memory, so that a
  // run can say how its data fits them; absent: there are none.
  virtual Tensor fixed_anchors() const { return {}; }
  // Images to "boxes" f32 [N,A,4] and "scores" [N,A,classes()] before suppression, by ops, for exports;
  // empty: there is no such graph.
  virtual nn::Forward graph() { return {}; }
};

}  // namespace tandem::models
