#include "bench/training.h"
#include "models/language_model.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

using train::Stage;

// The recipe of configs/debian_lstm.json; the streams go on from step to step with their state.
class LanguageTraining final : public Training {
 public:
  explicit LanguageTraining(const amp::Precision& precision)
      : model_({.vocabulary = kWords, .dropout = 0.3, .tied = true}),
        optimizer_(model_.parameters(), {.lr = 1.0}),
        precision_(precision),
        step_(model_, {&optimizer_}, clipped(precision)),
        words_(drawn(1)),
        targets_(drawn(2)) {}

  std::vector<double> step() override {
    stages.start();
    Tensor loss;
    {
      const RandomScope random(3, attempted_++, 0);
      const amp::Autocast autocast(precision_);
      const auto [logits, state] = model_(words_, state_);
      state_ = {state.h.detach(), state.c.detach()};
      stages.finish(Stage::forward);
      loss = cross_entropy(logits, targets_);
      stages.finish(Stage::loss);
    }
    step_.backward(loss);
    stages.finish(Stage::backward);
    stages.begin(Stage::update);
    step_.apply();
    stages.finish(Stage::update);
    return {loss.item()};
  }
  Index items() const override { return words_.numel(); }
  std::int64_t update_bytes() const override { return step_.update_bytes(); }

 private:
  static constexpr Index kWords = 10000, kSteps = 35, kStreams = 20;

  static optim::StepOptions clipped(const amp::Precision& precision) {
    optim::StepOptions options = amp::step_options(precision);
    options.clip_norm = 0.25;
    return options;
  }
  static Tensor drawn(std::uint64_t seed) {
    RandomStream random({.seed = seed});
    std::vector<std::int64_t> ids(static_cast<std::size_t>(kSteps * kStreams));
    for (auto& id : ids) id = random.below(static_cast<std::uint32_t>(kWords));
    return Tensor::from(ids, {kSteps, kStreams});
  }

  models::LanguageModel model_;
  optim::Sgd optimizer_;
  amp::Plan precision_;
  optim::Step step_;
  Tensor words_, targets_;
  RnnState state_;
  std::uint32_t attempted_ = 0;
};

}  // namespace

TrainingPtr language(const amp::Precision& precision) {
  return std::make_unique<LanguageTraining>(precision);
}

}  // namespace tandem::bench
