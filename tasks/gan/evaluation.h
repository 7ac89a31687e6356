// The distance of a generator's images from real ones.
#pragma once

#include <memory>
#include <vector>

#include "metrics/frechet.h"
#include "models/adversarial_pair.h"
#include "tasks/gan/classifier.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Images without their padding: [N,S,S,C] → [N,S-2·padding,S-2·padding,C].
Tensor without_padding(const Tensor& images, Index padding);

// Images in [-1, 1] as one PNG file, in a grid about as wide as high.
std::string png_grid(const Tensor& images);

// Metrics: the Fréchet distance between the classifier's features of the images of the pass and of as many
// made ones (Classifier::metric), and class_entropy, -Σ p·ln p over the shares p of the classes that the
// classifier takes the made ones for: ln(classes) when they are even, 0 when all are of one.
//
// What is made comes from fixed noise, so that evaluations of a run, and of runs, show the same z: for image
// i of the pass, and with its batch, an image from row i. Leaves a grid of the first of them as
// pictures/samples.png, one for each evaluation.
class GanEvaluation final : public Evaluation {
 public:
  // At most `samples` images are made. References are kept.
  GanEvaluation(models::AdversarialPair& model, std::shared_ptr<Classifier> classifier, Index samples,
                Index padding);

  // The features of the batch's images; those of the images that are made beside them and their classes; the
  // pixels of those that are shown.
  Record forward(const datasets::Batch& batch) override;
  void accumulate(std::span<const std::byte> record) override;
  Metrics metrics() const override;
  // "classifier", "samples" (made), and "made_classes": how many of them it takes for each class.
  Json details() const override;
  std::vector<Artifact> artifacts() const override;

 private:
  double class_entropy() const;

  models::AdversarialPair& model_;
  std::shared_ptr<Classifier> classifier_;
  Index samples_, padding_;
  metrics::FeatureMoments real_, made_;
  std::vector<std::int64_t> made_classes_;
  std::vector<Tensor> shown_;  // the first of the made ones, on the host
};

}  // namespace tandem::tasks
