#include "bench/training_of_one.h"
#include "data/text/stream_source.h"
#include "models/sequence_to_sequence.h"
#include "optim/adam.h"
#include "tandem.h"

namespace tandem::bench {

namespace {

constexpr Index kPieces = 8000, kLongest = 24, kPairs = 64;

struct TranslationNetwork {
  std::shared_ptr<models::SequenceToSequence> model;
  optim::Adam optimizer;

  explicit TranslationNetwork(const nlohmann::json& network)
      : model(std::dynamic_pointer_cast<models::SequenceToSequence>(
            models::build(network, {.words = kPieces, .target_words = kPieces, .shared_words = true}))),
        optimizer(model->parameters(), {.lr = 1e-4}) {}
};

// Pairs of 17 to 24 pieces.
class TranslationTraining final : TranslationNetwork, public TrainingOfOne {
 public:
  TranslationTraining(const nlohmann::json& network, const amp::Precision& precision)
      : TranslationNetwork(network), TrainingOfOne(*model, optimizer, precision, 1.0) {
    std::vector<std::int64_t> lengths;
    std::int64_t* const target = target_.data<std::int64_t>();
    for (Index row = 0; row < kPairs; ++row) {
      lengths.push_back(kLongest - row % 8);
      for (Index t = lengths.back(); t < kLongest; ++t) target[t * kPairs + row] = datasets::kNoTarget;
    }
    lengths_ = Tensor::from(lengths, {kPairs});
  }
  Index items() const override { return kPairs; }

 private:
  Tensor forward() override { return (*model)(source_, lengths_, read_); }
  Tensor loss(const Tensor& logits) override {
    return cross_entropy(logits, target_, {.label_smoothing = 0.1, .ignore_index = datasets::kNoTarget});
  }

  Tensor source_ = drawn_words({kLongest, kPairs}, kPieces, 1);
  Tensor read_ = drawn_words({kLongest, kPairs}, kPieces, 2);
  Tensor target_ = drawn_words({kLongest, kPairs}, kPieces, 3);
  Tensor lengths_;
};

}  // namespace

TrainingPtr translation(const nlohmann::json& model, const amp::Precision& precision) {
  return std::make_unique<TranslationTraining>(model, precision);
}

}  // namespace tandem::bench
