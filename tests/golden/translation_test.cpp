// 50 training steps of an encoder-decoder against PyTorch: scores and every gradient of the first step, then
// the losses in FP32 and in mixed precision, which are the same bit for bit when the run is repeated.
// tests/golden/translation.py makes the values; weights and sentences come from the same hash here.
#include <catch2/catch.hpp>

#include "models/encoder_decoder.h"
#include "optim/sgd.h"
#include "tests/golden/sentences.h"
#include "tests/support/paths.h"

using namespace tandem;

namespace {

constexpr int kSteps = 50;

// PyTorch's own runs are this far from its FP64 run (the metadata of the file): in FP32 logits 1e-7,
// gradients 1e-6 behind the attention's softmax, losses 2e-7; in BF16 losses 7e-4, in FP16 6e-5.
constexpr double kLogits = 3e-6;
constexpr double kGradients = 3e-5;
constexpr double kLosses = 3e-6;
constexpr double kLowLosses = 5e-3;

// Compares the first step with `golden` where one is given.
SentencesRun train(const amp::Precision& precision, const safetensors::File* golden) {
  models::EncoderDecoder model({.source_words = Sentences::kSourceWords,
                                .target_words = Sentences::kTargetWords,
                                .embedding = 12,
                                .units = 16,
                                .encoder_layers = 3,
                                .decoder_layers = 3,
                                .dropout = 0.0});
  set_initial(model);
  model.to(test::test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.7});
  return learn_sentences(model, optimizer, kSteps, precision, golden, {kLogits, kGradients});
}

}  // namespace

TEST_CASE("50 steps of an encoder-decoder agree with PyTorch and with themselves", "[encoder_decoder]") {
  const safetensors::File golden(test::source_path("tests/golden/translation.safetensors"));
  const SentencesRun run = train(amp::Precision::fp32(), &golden);
  CHECK(worst(run.losses, golden.read("losses f64").to_vector<double>()) < kLosses);
  CHECK(worst(run.losses, golden.read("losses f32").to_vector<double>()) < kLosses);
  CHECK(train(amp::Precision::fp32(), nullptr) == run);
}

TEST_CASE("50 steps of an encoder-decoder in mixed precision agree with autocast and with themselves",
          "[encoder_decoder]") {
  const safetensors::File golden(test::source_path("tests/golden/translation.safetensors"));
  check_like_autocast([](const amp::Precision& precision) { return train(precision, nullptr); }, golden,
                      kLowLosses);
}
