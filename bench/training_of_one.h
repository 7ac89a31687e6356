// Training step of one network; a derived class defines the forward pass and the loss. Model and optimizer
// must exist before the step, in an earlier base of the derived class.
#pragma once

#include "bench/training.h"
#include "core/random.h"
#include "optim/optimizer.h"
#include "optim/step.h"

namespace tandem::bench {

// Random words or pieces, i64.
inline Tensor drawn_words(const Shape& shape, Index words, std::uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.numel()));
  for (auto& id : ids) id = random.below(static_cast<std::uint32_t>(words));
  return Tensor::from(ids, shape);
}

class TrainingOfOne : public Training {
 public:
  std::vector<double> step() final {
    stages.start();
    Tensor loss;
    {
      const RandomScope random(3, attempted_++, 0);
      const amp::Autocast autocast(precision_);
      const Tensor output = forward();
      stages.finish(train::Stage::forward);
      loss = this->loss(output);
      stages.finish(train::Stage::loss);
    }
    step_.backward(loss);
    stages.finish(train::Stage::backward);
    stages.begin(train::Stage::update);
    step_.apply();
    stages.finish(train::Stage::update);
    return {loss.item()};
  }
  std::int64_t update_bytes() const final { return step_.update_bytes(); }
  Index parameters() const final { return model_.parameter_count(); }

 protected:
  // Keeps references to both. `clip_norm` 0: no clipping.
  TrainingOfOne(nn::Module& model, optim::Optimizer& optimizer, const amp::Precision& precision,
                double clip_norm = 0.0)
      : model_(model), precision_(precision), step_(model, {&optimizer}, options_of(precision, clip_norm)) {}

  virtual Tensor forward() = 0;
  virtual Tensor loss(const Tensor& output) = 0;

 private:
  static optim::StepOptions options_of(const amp::Precision& precision, double clip_norm) {
    optim::StepOptions options = amp::step_options(precision);
    if (clip_norm > 0.0) options.clip_norm = clip_norm;
    return options;
  }

  nn::Module& model_;
  amp::ResolvedPrecision precision_;
  optim::Step step_;
  std::uint32_t attempted_ = 0;
};

}  // namespace tandem::bench
