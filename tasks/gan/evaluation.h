// Evaluation of a GAN: distance between generated and real images.
#pragma once

#include <memory>
#include <vector>

#include "metrics/frechet.h"
#include "models/adversarial_pair.h"
#include "tasks/gan/classifier.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Crops images: [N,S,S,C] → [N,S-2·padding,S-2·padding,C].
Tensor without_padding(const Tensor& images, Index padding);

// Images in [-1, 1] as one PNG file, in a roughly square grid.
std::string png_grid(const Tensor& images);

// Metrics: the Fréchet distance between the classifier's features of the pass's images and of as many
// generated ones (Classifier::metric), and class_entropy, -Σ p·ln p over the predicted class shares p of the
// generated images: ln(classes) if even, 0 if all are one class.
//
// Generated images use fixed noise, so that all evaluations share the same z: row i for image i of the pass,
// generated with its batch. Saves a grid of the first ones as pictures/samples.png, one per evaluation.
class GanEvaluation final : public Evaluation {
 public:
  // Generates at most `samples` images. Keeps references.
  GanEvaluation(models::AdversarialPair& model, std::shared_ptr<Classifier> classifier, Index samples,
                Index padding);

  // Features of the batch's images; features and classes of the generated images; pixels of the shown ones.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  Metrics metrics() const override;
  // "classifier", "samples" (generated), and "made_classes": their number per predicted class.
  Json details() const override;
  std::vector<Artifact> artifacts() const override;

 private:
  double class_entropy() const;

  models::AdversarialPair& model_;
  std::shared_ptr<Classifier> classifier_;
  Index samples_, padding_;
  metrics::FeatureMoments real_, made_;
  std::vector<std::int64_t> made_classes_;
  std::vector<Tensor> shown_;  // the first generated ones, on the host
};

}  // namespace tandem::tasks
