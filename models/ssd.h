// SSD (Liu et al., "SSD: single shot multibox detector", ECCV 2016): class scores and box codes of every
// anchor in one pass.
#pragma once

#include <memory>
#include <vector>

#include "models/anchors.h"
#include "models/detector.h"
#include "models/detector_body.h"
#include "models/foreign_names.h"

namespace tandem::models {

struct SsdOptions {
  Index num_classes = 81;  // including the background, class 0
  AnchorGrid anchors;      // for `image_size`² images; one level per map of the body
  AnchorClip clip = AnchorClip::cxcywh;
  bool lite = false;  // heads of SSDLite (models/ssd_lite.h)
};

// A 3×3 convolution on each map gives scores, another one codes (autograd/ops/boxes.h), anchor by anchor
// within a cell; both are computed as one. Weights start Xavier-uniform, biases at 0; `lite` differs.
// Parameters are named as in torchvision: backbone.… (the body),
// head.classification_head.module_list.0.weight, … and head.regression_head.module_list.0.weight, ….
//
// Besides files with its own names, which are torchvision's, it reads those of NVIDIA's DeepLearningExamples,
// whose heads are ordered by anchor, then cell, and those of the classifier that the body is based on.
class Ssd final : public Detector, public ReadsForeignFiles {
 public:
  // Throws UserError for less than two classes, and for different numbers of maps and anchor levels.
  Ssd(std::shared_ptr<DetectorBody> body, const SsdOptions& options);

  // Images [N,S,S,C] of the anchors' size. Throws UserError for other sizes, and for maps with other cells
  // than their level.
  AnchorOutput operator()(const Tensor& images);
  TensorList forward_outputs(const TensorList& xs) override;  // scores and codes
  Index classes() const override { return options_.num_classes; }
  // SSD's multibox loss.
  Tensor loss(const TensorList& outputs, const Tensor& boxes, const MultiboxOptions& options) override;
  std::vector<std::vector<FoundBox>> decode(const TensorList& outputs,
                                            const SuppressionOptions& options) override;
  // Number of positive anchors.
  Index loss_terms(const Tensor& boxes, const MultiboxOptions& options) const override;
  Tensor fixed_anchors() const override { return options_.anchors.boxes(options_.clip); }
  // decoded().
  nn::Forward graph() override;
  // Decoded boxes as corners relative to the image and clipped to it, f32 [N,A,4], and probabilities,
  // [N,A,num_classes]: everything before suppression, by ops.
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
