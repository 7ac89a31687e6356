#include "bench/training_of_one.h"
#include "core/kernels/random.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

struct ImageModel {
  nn::ModulePtr module;
  std::unique_ptr<optim::Optimizer> optimizer;

  explicit ImageModel(const Supervised& workload)
      : module(workload.model(workload.images[3], workload.classes)) {
    if (workload.adamw)
      optimizer = std::make_unique<optim::AdamW>(module->parameters(),
                                                 optim::AdamWOptions{.lr = 1e-3, .weight_decay = 0.05});
    else
      optimizer = std::make_unique<optim::Sgd>(
          module->parameters(), optim::SgdOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4});
  }
};

class SupervisedTraining final : ImageModel, public TrainingOfOne {
 public:
  SupervisedTraining(const Supervised& workload, const amp::Precision& precision)
      : ImageModel(workload),
        TrainingOfOne(*module, *optimizer, precision),
        by_pixel_(workload.by_pixel),
        images_(Tensor::empty(workload.images)) {
    backend_for({}).random().random_normal({.seed = 1}, images_, 0.0, 1.0);
    const Shape targets = by_pixel_ ? workload.images.without(3) : Shape{workload.images[0]};
    const Tensor labels = drawn_words(targets, workload.classes, 2);
    labels_ = by_pixel_ ? cast(labels, DType::u8) : labels;
  }
  Index items() const override { return images_.size(0); }

 private:
  Tensor forward() override { return (*module)(images_); }
  Tensor loss(const Tensor& logits) override {
    const Tensor loss = cross_entropy(logits, labels_);
    return by_pixel_ ? loss + dice_loss(logits, labels_) : loss;
  }

  bool by_pixel_;
  Tensor images_, labels_;
};

}  // namespace

TrainingPtr supervised(const Supervised& workload, const amp::Precision& precision) {
  return std::make_unique<SupervisedTraining>(workload, precision);
}

}  // namespace tandem::bench
