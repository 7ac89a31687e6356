// SSD (Liu et al., "SSD: single shot multibox detector", ECCV 2016): of every anchor, in one pass, the scores
// of the classes and where the object lies.
#pragma once

#include <memory>
#include <vector>

#include "models/anchors.h"
#include "models/detector.h"
#include "models/detector_body.h"
#include "models/foreign_names.h"

namespace tandem::models {

struct SsdOptions {
  Index num_classes = 81;  // the background, which is class 0, included
  AnchorGrid anchors;      // of `image_size`² images; a level for each map of the body
  AnchorClip clip = AnchorClip::cxcywh;
  bool lite = false;  // heads of SSDLite (models/ssd_lite.h)
};

// A 3×3 convolution on each map gives scores, another one codes (autograd/ops/boxes.h), of a cell's anchors
// one after the other; both are computed as one. Their weights start Xavier-uniform, biases at 0; `lite` has
// other ones. Parameters are called backbone.… (the body), head.classification_head.module_list.0.weight, …
// and head.regression_head.module_list.0.weight, …, as in torchvision.
//
// Beside files of its own names, which torchvision's of the same detector have, it reads those of NVIDIA's
// DeepLearningExamples, whose heads have all cells of an anchor one after the other, and of a classifier that
// the body was made from.
class Ssd final : public Detector, public ReadsForeignFiles {
 public:
  // Throws UserError for less than two classes, and where body and anchors have not as many maps.
  Ssd(std::shared_ptr<DetectorBody> body, const SsdOptions& options);

  // Images [N,S,S,C] of the anchors' size. Throws UserError for others, and where a map has not its level's
  // cells.
  AnchorOutput operator()(const Tensor& images);
  TensorList forward_outputs(const TensorList& xs) override;  // scores and codes
  Index classes() const override { return options_.num_classes; }
  // SSD's multibox loss.
  Tensor loss(const TensorList& outputs, const Tensor& boxes, const MultiboxOptions& options) override;
  std::vector<std::vector<FoundBox>> decode(const TensorList& outputs,
                                            const SuppressionOptions& options) override;
  // Anchors that have an object.
  Index loss_terms(const Tensor& boxes, const MultiboxOptions& options) const override;
  Tensor fixed_anchors() const override { return options_.anchors.boxes(options_.clip); }
  // decoded().
  nn::Forward graph() override;
  // The same as corners in shares of the image, within it, f32 [N,A,4], and probabilities, [N,A,num_classes]:
  // all that comes before suppression, by ops.
  TensorList decoded(const Tensor& images);
  std::string describe() const override;
  ForeignNames foreign_names(const safetensors::File& file) const override;

  const SsdOptions& options() const { return options_; }
  const Tensor& anchors() const { return anchors_; }  // f32 [A,4] on the model's device

 private:
  void check_maps(const TensorList& maps) const;

  SsdOptions options_;
  std::shared_ptr<DetectorBody> body_;
  nn::ModulePtr heads_;
  const Tensor &anchors_, &centres_, &sizes_;  // [A,4], and its halves; they follow to()
};

}  // namespace tandem::models
