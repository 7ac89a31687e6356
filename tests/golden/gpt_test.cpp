// Small GPT-2 and Llama models against Hugging Face's transformers in FP64: logits and every gradient of the
// first step, the losses of ten steps in FP32 and in mixed precision, and greedily generated tokens, with the
// cache of keys and values. tests/golden/gpt.py makes the values; weights and tokens come from the same hash
// here.
#include "models/gpt.h"

#include <catch2/catch.hpp>

#include "amp/autocast.h"
#include "autograd/modes.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "optim/sgd.h"
#include "optim/step.h"
#include "tests/golden/gradients.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

constexpr Index kSteps = 10, kWords = 40, kT = 12, kN = 3;

// PyTorch's own runs are this far from its FP64 run (the metadata of the files): in FP32 logits 5e-7,
// gradients 4e-6, losses 2e-7; in BF16 losses 2e-3, in FP16 4e-4.
constexpr double kFirst = 1e-5;
constexpr double kLosses = 2e-6;
constexpr double kLowLosses = 6e-3;

models::GptOptions gpt2() {
  return {.vocabulary = kWords,
          .layers = 2,
          .width = 24,
          .heads = 4,
          .context = 32,
          .activation = nn::BlockActivation::gelu_tanh};
}

models::GptOptions llama() {
  return {.vocabulary = kWords,
          .layers = 2,
          .width = 24,
          .heads = 4,
          .kv_heads = 2,
          .context = 8,  // shorter than the texts: rotary positions have no end
          .inner = 20,
          .bias = false,
          .activation = nn::BlockActivation::swiglu,
          .norm = nn::BlockNorm::rms,
          .positions = models::GptPositions::rotary,
          .tied = false};
}

// All batches, [steps,N,T+1].
std::vector<std::int64_t> tokens_of_run() {
  const auto drawn = hashed("tokens", kSteps * kN * (kT + 1));
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const bool first = i % (kT + 1) == 0;
    tokens.push_back(first               ? drawn[i] % kWords
                     : drawn[i] % 4 == 0 ? drawn[i] / 4 % kWords
                                         : (7 * tokens.back() + 3) % kWords);
  }
  return tokens;
}

// [T,N], or with `behind` 1 those that follow them.
Tensor batch_at(const std::vector<std::int64_t>& tokens, Index step, Index behind) {
  std::vector<std::int64_t> batch;
  for (Index t = 0; t < kT; ++t)
    for (Index n = 0; n < kN; ++n)
      batch.push_back(tokens[static_cast<std::size_t>((step * kN + n) * (kT + 1) + t + behind)]);
  return Tensor::from(batch, {kT, kN}, test::test_device());
}

struct Run {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const Run&, const Run&) = default;
};

Run train(const models::GptOptions& options, const amp::Precision& precision,
          const safetensors::File* golden) {
  models::Gpt model(options);
  set_initial(model);
  model.to(test::test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.5});
  optim::StepOptions step_options = amp::step_options(precision);
  step_options.clip_norm = 1.0;
  optim::Step step(model, {&optimizer}, step_options);
  const amp::ResolvedPrecision plan(precision);
  const auto tokens = tokens_of_run();
  Run run;
  for (Index i = 0; i < kSteps; ++i) {
    Tensor logits, loss;
    {
      const amp::Autocast autocast(plan);
      logits = model(batch_at(tokens, i, 0));
      loss = cross_entropy(logits, batch_at(tokens, i, 1));
    }
    run.losses.push_back(loss.item());
    step.backward(loss);
    if (golden && i == 0) {
      CHECK(test::normalised_error(logits.to_vector<double>(), golden->read("logits").to_vector<double>()) <
            kFirst);
      for (const Parameter& parameter : model.parameters()) check_gradient(parameter, *golden, kFirst);
      CHECK(golden->entries().size() == 6 + 2 * model.parameters().size());
    }
    step.apply();
  }
  CHECK(step.synchronize().applied == kSteps);
  for (const Parameter& parameter : model.parameters())
    run.weights.push_back(parameter.value().to_vector<float>());
  return run;
}

std::vector<double> greedy(const models::GptOptions& options, std::size_t count) {
  const NoGrad no_grad;
  models::Gpt model(options);
  set_initial(model);
  model.to(test::test_device());
  model.eval();
  std::vector<std::int64_t> words{3, 17, 5, 29};
  models::State state = model.begin(1);
  std::vector<double> text;
  while (text.size() < count) {
    const auto read = static_cast<Index>(words.size());
    const auto advanced = model.advance(Tensor::from(words, {read, 1}, test::test_device()), state);
    state = advanced.state;
    words = argmax(model.scores(advanced.hidden.rows(read - 1, 1))).to_vector<std::int64_t>();
    text.push_back(static_cast<double>(words.front()));
  }
  return text;
}

void check_model(const char* file, const models::GptOptions& options) {
  const safetensors::File golden(test::source_path(std::string("tests/golden/") + file));
  const Run run = train(options, amp::Precision::fp32(), &golden);
  CHECK(worst(run.losses, golden.read("losses f64").to_vector<double>()) < kLosses);
  CHECK(train(options, amp::Precision::fp32(), nullptr) == run);
  check_like_autocast([&](const amp::Precision& precision) { return train(options, precision, nullptr); },
                      golden, kLowLosses);
  const std::vector<double> expected = golden.read("greedy").to_vector<double>();
  CHECK(greedy(options, expected.size()) == expected);
}

}  // namespace

TEST_CASE("ten steps and a text of GPT-2 agree with transformers", "[gpt]") {
  check_model("gpt2.safetensors", gpt2());
}

TEST_CASE("ten steps and a text of a Llama agree with transformers", "[gpt]") {
  check_model("llama.safetensors", llama());
}
