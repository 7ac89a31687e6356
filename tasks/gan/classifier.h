// A trained classifier as a measure of images: its penultimate features, and what it takes them for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transforms/transform.h"
#include "nn/module.h"
#include "tasks/task.h"

namespace tandem::tasks {

// What images of a data set are before a network sees them, but for their normalisation.
struct ImageForm {
  datasets::DatasetInfo info;
  Index image_size = 0;                        // side that images of varying size are brought to, or 0
  std::vector<datasets::TransformSpec> steps;  // of evaluation, without normalisation
};

// Those of `augment` that evaluation keeps, without normalisation.
std::vector<datasets::TransformSpec> lasting_steps(const std::vector<datasets::TransformSpec>& augment);

class Classifier {
 public:
  // The directory of a run that trained a classifier, of which the best weights are taken, or a file of
  // weights that a run saved, of a lenet5. Throws UserError for what is neither, and for weights that are not
  // the model's.
  explicit Classifier(const std::string& path);
  // That, or without a path the one that comes with Tandem for the data. Throws UserError when there is none,
  // or when it was trained on other data, or on the same in another form.
  static std::shared_ptr<Classifier> of(const std::optional<std::string>& path, const ImageForm& images);

  struct Judgement {
    Tensor features;             // f32 [N,F] on the host: what the last linear layer takes
    std::vector<Index> classes;  // [N], the likeliest; of equal ones the first
  };
  // images: f32 [N,H,W,C] in [-1, 1], without padding. In FP32, whatever precision is active.
  Judgement judge(const Tensor& images);

  Index classes() const { return form_.info.classes; }
  // What the Fréchet distance of its features is called: fd_lenet, or fd_classifier of any other.
  const std::string& metric() const { return metric_; }
  // Its file, the SHA-256 of that, and the name of the model.
  Json description() const;

 private:
  void require_for(const ImageForm& images) const;

  std::string path_, file_, digest_, model_name_ = "lenet5", metric_;
  ImageForm form_;
  nn::ModulePtr model_;
  Tensor scale_, offset_;  // [C]: from [-1, 1] to what the model takes
};

}  // namespace tandem::tasks
