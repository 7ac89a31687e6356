// Trained classifier for the evaluation of images: its penultimate features and its predictions.
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

// Preprocessing of a data set's images, without normalisation.
struct ImageForm {
  datasets::DatasetInfo info;
  Index image_size = 0;                        // side that images of varying size are resized to, or 0
  std::vector<datasets::TransformSpec> steps;  // of evaluation, without normalisation
};

// The steps of `augment` that evaluation keeps, without normalisation.
std::vector<datasets::TransformSpec> lasting_steps(const std::vector<datasets::TransformSpec>& augment);

class Classifier {
 public:
  // `path`: the directory of a run that trained a classifier (its best weights are used), or a lenet5 weights
  // file that a run saved. Throws UserError for other paths, and for weights that do not fit the model.
  explicit Classifier(const std::string& path);
  // The same, or without a path Tandem's own classifier for the data. Throws UserError when there is none, or
  // when it was trained on other data or with other preprocessing.
  static std::shared_ptr<Classifier> of(const std::optional<std::string>& path, const ImageForm& images);

  struct Judgement {
    Tensor features;             // f32 [N,F] on the host: inputs of the last linear layer
    std::vector<Index> classes;  // [N], the most likely; on ties the first
  };
  // images: f32 [N,H,W,C] in [-1, 1], without padding. FP32 under any precision.
  Judgement judge(const Tensor& images);

  Index classes() const { return form_.info.classes; }
  // Name of the Fréchet distance of its features: fd_lenet, or fd_classifier for other models.
  const std::string& metric() const { return metric_; }
  // Its file, that file's SHA-256, and the name of the model.
  Json description() const;

 private:
  void require_for(const ImageForm& images) const;

  std::string path_, file_, digest_, model_name_ = "lenet5", metric_;
  ImageForm form_;
  nn::ModulePtr model_;
  Tensor scale_, offset_;  // [C]: maps [-1, 1] to the model's normalisation
};

}  // namespace tandem::tasks
