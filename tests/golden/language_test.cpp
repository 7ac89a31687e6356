// A small language model against PyTorch in FP64: logits, states and every gradient of the first step, then
// the losses of 50 steps with carried state and clipping, in FP32 and in mixed precision, which are the same
// bit for bit when the run is repeated. tests/golden/language.py makes the values; weights and words come
// from the same hash here.
#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/ops/loss.h"
#include "models/language_model.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/golden/gradients.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

constexpr int kSteps = 50;
constexpr Index kWords = 40, kUnits = 16, kT = 7, kN = 4;

// PyTorch's own runs are this far from its FP64 run (the metadata of the file): in FP32 logits 1e-7,
// gradients 4e-7, losses 3e-7, the last c 4e-6; in BF16 losses 3e-3, in FP16 2e-3.
constexpr double kFirst = 3e-6;
constexpr double kLosses = 3e-6;
constexpr double kLastState = 5e-5;
constexpr double kLowLosses = 1e-2;

std::vector<std::int64_t> text() {
  const auto drawn = hashed("words", (kSteps * kT + 1) * kN);
  std::vector<std::int64_t> words;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (i < static_cast<std::size_t>(kN)) {
      words.push_back(drawn[i] % kWords);
    } else {
      const std::int64_t before = words[i - static_cast<std::size_t>(kN)];
      words.push_back(drawn[i] % 4 == 0 ? drawn[i] / 4 % kWords : (7 * before + 3) % kWords);
    }
  }
  return words;
}

// The words of a step, or with `behind` 1 those that follow them.
Tensor piece(const std::vector<std::int64_t>& words, Index step, Index behind) {
  const auto first = words.begin() + (step * kT + behind) * kN;
  return Tensor::from(std::vector<std::int64_t>(first, first + kT * kN), {kT, kN}, test::test_device());
}

struct Run {
  std::vector<double> losses;
  std::vector<double> last_state;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const Run&, const Run&) = default;
};

double error(const Tensor& got, const Tensor& expected) {
  return test::normalised_error(got.to_vector<double>(), expected.to_vector<double>());
}

// Compares the first step with `golden` where one is given.
Run train(const amp::Precision& precision, const safetensors::File* golden) {
  models::LanguageModel model({.vocabulary = kWords,
                               .embedding = kUnits,
                               .units = kUnits,
                               .layers = 2,
                               .dropout = 0.0,
                               .tied = true,
                               .init = 0.0});
  set_initial(model);
  model.to(test::test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = 8.0});
  optim::StepOptions options = amp::step_options(precision);
  options.clip_norm = 0.25;
  optim::Step step(model, {&optimizer}, options);
  const amp::ResolvedPrecision plan(precision);
  const auto words = text();
  models::State state;
  Run run;
  for (Index i = 0; i < kSteps; ++i) {
    Tensor logits, loss;
    {
      const amp::Autocast autocast(plan);
      const auto advanced = model.advance(piece(words, i, 0), state);
      logits = model.scores(advanced.hidden);
      state = advanced.state.carried();
      loss = cross_entropy(logits, piece(words, i, 1));
    }
    run.losses.push_back(loss.item());
    step.backward(loss);
    if (golden && i == 0) {
      CHECK(error(logits, golden->read("logits")) < kFirst);
      CHECK(error(state.find("h"), golden->read("h")) < kFirst);
      CHECK(error(state.find("c"), golden->read("c")) < kFirst);
      for (const Parameter& parameter : model.parameters()) check_gradient(parameter, *golden, kFirst);
      CHECK(golden->entries().size() == 8 + 2 * model.parameters().size());
    }
    step.apply();
  }
  CHECK(step.synchronize().applied == kSteps);
  run.last_state = state.find("c").to_vector<double>();
  for (const Parameter& parameter : model.parameters())
    run.weights.push_back(parameter.value().to_vector<float>());
  return run;
}

}  // namespace

TEST_CASE("50 steps of a language model agree with PyTorch and with themselves", "[language]") {
  const safetensors::File golden(test::source_path("tests/golden/language.safetensors"));
  const Run run = train(amp::Precision::fp32(), &golden);
  CHECK(worst(run.losses, golden.read("losses f64").to_vector<double>()) < kLosses);
  CHECK(worst(run.losses, golden.read("losses f32").to_vector<double>()) < kLosses);
  CHECK(test::normalised_error(run.last_state, golden.read("last c").to_vector<double>()) < kLastState);
  CHECK(train(amp::Precision::fp32(), nullptr) == run);
}

TEST_CASE("50 steps of a language model in mixed precision agree with autocast and with themselves",
          "[language]") {
  const safetensors::File golden(test::source_path("tests/golden/language.safetensors"));
  check_like_autocast([](const amp::Precision& precision) { return train(precision, nullptr); }, golden,
                      kLowLosses);
}
