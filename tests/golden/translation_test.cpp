// 50 training steps of an encoder-decoder against PyTorch: scores and every gradient of the first step, then
// the losses in FP32 and in mixed precision, which are the same bit for bit when the run is repeated.
// tests/golden/translation.py makes the values; weights and sentences come from the same hash here.
#include <algorithm>
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/loss.h"
#include "models/encoder_decoder.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/golden/gradients.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

constexpr int kSteps = 50, kBatches = 5;
constexpr std::int64_t kSourceWords = 12, kTargetWords = 14, kNoTarget = -1;
constexpr std::size_t kLongest = 6, kN = 8;

// PyTorch's own runs are this far from its FP64 run (the metadata of the file): in FP32 logits 1e-7,
// gradients 1e-6 behind the attention's softmax, losses 2e-7; in BF16 losses 7e-4, in FP16 6e-5.
constexpr double kLogits = 3e-6;
constexpr double kGradients = 3e-5;
constexpr double kLosses = 3e-6;
constexpr double kLowLosses = 5e-3;

struct Sentences {
  Tensor source, lengths, read, target;
};

// Sentences to be written backwards in another alphabet; word 0 begins and ends what is written.
Sentences batch(int number) {
  const auto drawn = hashed("lengths" + std::to_string(number), static_cast<Index>(kN));
  const auto words = hashed("source" + std::to_string(number), static_cast<Index>(kLongest * kN));
  std::vector<std::int64_t> lengths;
  for (const std::uint32_t word : drawn) lengths.push_back(1 + word % kLongest);
  const auto steps = static_cast<std::size_t>(std::ranges::max(lengths));
  std::vector<std::int64_t> source(steps * kN), read((steps + 1) * kN), target((steps + 1) * kN, kNoTarget);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = 1 + words[i] % (kSourceWords - 1);
  for (std::size_t row = 0; row < kN; ++row) {
    const auto length = static_cast<std::size_t>(lengths[row]);
    for (std::size_t t = 0; t < length; ++t) {
      const std::int64_t written = 1 + (5 * source[(length - 1 - t) * kN + row] + 2) % (kTargetWords - 1);
      read[(t + 1) * kN + row] = target[t * kN + row] = written;
    }
    target[length * kN + row] = 0;
  }
  const auto n = static_cast<Index>(kN), s = static_cast<Index>(steps);
  const Device device = test::test_device();
  return {Tensor::from(source, {s, n}, device), Tensor::from(lengths, {n}),
          Tensor::from(read, {s + 1, n}, device), Tensor::from(target, {s + 1, n}, device)};
}

struct Run {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const Run&, const Run&) = default;
};

// Compares the first step with `golden` where one is given.
Run train(const amp::Precision& precision, const safetensors::File* golden) {
  models::EncoderDecoder model({.source_words = kSourceWords,
                                .target_words = kTargetWords,
                                .embedding = 12,
                                .units = 16,
                                .encoder_layers = 3,
                                .decoder_layers = 3,
                                .dropout = 0.0});
  set_initial(model);
  model.to(test::test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.7});
  optim::StepOptions options = amp::step_options(precision);
  options.clip_norm = 1.0;
  optim::Step step(model, {&optimizer}, options);
  const amp::ResolvedPrecision plan(precision);
  Run run;
  for (int i = 0; i < kSteps; ++i) {
    const Sentences sentences = batch(i % kBatches);
    Tensor logits, loss;
    {
      const amp::Autocast autocast(plan);
      logits = model(sentences.source, sentences.lengths, sentences.read);
      loss = cross_entropy(logits, sentences.target, {.label_smoothing = 0.1, .ignore_index = kNoTarget});
    }
    run.losses.push_back(loss.item());
    step.backward(loss);
    if (golden && i == 0) {
      CHECK(test::normalised_error(logits.to_vector<double>(), golden->read("logits").to_vector<double>()) <
            kLogits);
      for (const Parameter& parameter : model.parameters()) check_gradient(parameter, *golden, kGradients);
      CHECK(golden->entries().size() == 5 + 2 * model.parameters().size());
    }
    step.apply();
  }
  CHECK(step.synchronize().applied == kSteps);
  for (const Parameter& parameter : model.parameters())
    run.weights.push_back(parameter.value().to_vector<float>());
  return run;
}

}  // namespace

TEST_CASE("50 steps of an encoder-decoder agree with PyTorch and with themselves", "[encoder_decoder]") {
  const safetensors::File golden(test::source_path("tests/golden/translation.safetensors"));
  const Run run = train(amp::Precision::fp32(), &golden);
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
