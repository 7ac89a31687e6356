#include "bench/training.h"
#include "data/text/stream_source.h"
#include "models/encoder_decoder.h"
#include "optim/adam.h"
#include "optim/step.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

using train::Stage;

// The network of configs/translate_de.json on pairs of 17 to 24 pieces.
class TranslationTraining final : public Training {
 public:
  explicit TranslationTraining(const amp::Precision& precision)
      : model_({.source_words = kWords,
                .target_words = kWords,
                .embedding = 256,
                .units = 256,
                .encoder_layers = 2,
                .decoder_layers = 2,
                .dropout = 0.3,
                .shared = true,
                .tied = true}),
        optimizer_(model_.parameters(), {.lr = 1e-4}),
        precision_(precision),
        step_(model_, {&optimizer_}, clipped(precision)),
        source_(drawn(1)),
        read_(drawn(2)),
        target_(drawn(3)) {
    std::vector<std::int64_t> lengths;
    for (Index row = 0; row < kPairs; ++row) lengths.push_back(kLongest - row % 8);
    lengths_ = Tensor::from(lengths, {kPairs});
    std::int64_t* const target = target_.data<std::int64_t>();
    for (Index row = 0; row < kPairs; ++row)
      for (Index t = lengths[static_cast<std::size_t>(row)]; t < kLongest; ++t)
        target[t * kPairs + row] = datasets::kNoTarget;
  }

  std::vector<double> step() override {
    stages.start();
    Tensor loss;
    {
      const RandomScope random(3, attempted_++, 0);
      const amp::Autocast autocast(precision_);
      const Tensor logits = model_(source_, lengths_, read_);
      stages.finish(Stage::forward);
      loss = cross_entropy(logits, target_, {.label_smoothing = 0.1, .ignore_index = datasets::kNoTarget});
      stages.finish(Stage::loss);
    }
    step_.backward(loss);
    stages.finish(Stage::backward);
    stages.begin(Stage::update);
    step_.apply();
    stages.finish(Stage::update);
    return {loss.item()};
  }
  Index items() const override { return kPairs; }
  std::int64_t update_bytes() const override { return step_.update_bytes(); }

 private:
  static constexpr Index kWords = 8000, kLongest = 24, kPairs = 64;

  static optim::StepOptions clipped(const amp::Precision& precision) {
    optim::StepOptions options = amp::step_options(precision);
    options.clip_norm = 1.0;
    return options;
  }
  static Tensor drawn(std::uint64_t seed) {
    RandomStream random({.seed = seed});
    std::vector<std::int64_t> ids(static_cast<std::size_t>(kLongest * kPairs));
    for (auto& id : ids) id = random.below(static_cast<std::uint32_t>(kWords));
    return Tensor::from(ids, {kLongest, kPairs});
  }

  models::EncoderDecoder model_;
  optim::Adam optimizer_;
  amp::Plan precision_;
  optim::Step step_;
  Tensor source_, read_, target_, lengths_;
  std::uint32_t attempted_ = 0;
};

}  // namespace

TrainingPtr translation(const amp::Precision& precision) {
  return std::make_unique<TranslationTraining>(precision);
}

}  // namespace tandem::bench
