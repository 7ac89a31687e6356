#include "bench/training.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

using train::Stage;

class SupervisedTraining final : public Training {
 public:
  SupervisedTraining(const Supervised& workload, const amp::Precision& precision)
      : model_(workload.model(workload.images[3], workload.classes)),
        by_pixel_(workload.by_pixel),
        optimizer_(model_->parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4}),
        precision_(precision),
        step_(*model_, {&optimizer_}, amp::step_options(precision)),
        images_(Tensor::empty(workload.images)) {
    backend_for({}).random_normal({.seed = 1}, images_, 0.0, 1.0);
    const Shape targets = by_pixel_ ? workload.images.without(3) : Shape{workload.images[0]};
    std::vector<std::int64_t> labels(static_cast<std::size_t>(targets.numel()));
    RandomStream random({.seed = 2});
    for (auto& label : labels) label = random.below(static_cast<std::uint32_t>(workload.classes));
    labels_ = by_pixel_ ? Tensor::from(std::vector<std::uint8_t>(labels.begin(), labels.end()), targets)
                        : Tensor::from(labels, targets);
  }

  std::vector<double> step() override {
    stages.start();
    Tensor loss;
    {
      const amp::Autocast autocast(precision_);
      const Tensor logits = (*model_)(images_);
      stages.finish(Stage::forward);
      loss = cross_entropy(logits, labels_);
      if (by_pixel_) loss = loss + dice_loss(logits, labels_);
      stages.finish(Stage::loss);
    }
    step_.backward(loss);
    stages.finish(Stage::backward);
    stages.begin(Stage::update);
    step_.apply();
    stages.finish(Stage::update);
    return {loss.item()};
  }
  Index items() const override { return images_.size(0); }
  std::int64_t update_bytes() const override { return step_.update_bytes(); }

 private:
  nn::ModulePtr model_;
  bool by_pixel_;
  optim::Sgd optimizer_;
  amp::Plan precision_;
  optim::Step step_;
  Tensor images_, labels_;
};

}  // namespace

TrainingPtr supervised(const Supervised& workload, const amp::Precision& precision) {
  return std::make_unique<SupervisedTraining>(workload, precision);
}

}  // namespace tandem::bench
