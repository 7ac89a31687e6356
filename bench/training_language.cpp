#include "bench/training_of_one.h"
#include "models/language_model.h"
#include "optim/sgd.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

constexpr Index kWords = 10000, kSteps = 35, kStreams = 20;

struct LanguageNetwork {
  models::LanguageModel model{{.vocabulary = kWords, .dropout = 0.3, .tied = true, .init = 0.05}};
  optim::Sgd optimizer{model.parameters(), {.lr = 1.0}};
};

// The recipe of configs/debian_lstm.json; streams carry their state from step to step.
class LanguageTraining final : LanguageNetwork, public TrainingOfOne {
 public:
  explicit LanguageTraining(const amp::Precision& precision)
      : TrainingOfOne(model, optimizer, precision, 0.25) {}
  Index items() const override { return words_.numel(); }

 private:
  Tensor forward() override {
    const auto advanced = model.advance(words_, state_);
    state_ = {};
    for (const auto& field : advanced.state.fields()) state_.set(field.name, field.value.detach());
    return model.scores(advanced.hidden);
  }
  Tensor loss(const Tensor& logits) override { return cross_entropy(logits, targets_); }

  Tensor words_ = drawn_words({kSteps, kStreams}, kWords, 1);
  Tensor targets_ = drawn_words({kSteps, kStreams}, kWords, 2);
  models::State state_;
};

}  // namespace

TrainingPtr language(const amp::Precision& precision) {
  return std::make_unique<LanguageTraining>(precision);
}

}  // namespace tandem::bench
