// Training of translation models on made-up sentences, as tests/golden/translation.py trains PyTorch's; words
// come from the same hash here.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "autograd/ops/loss.h"
#include "models/sequence_to_sequence.h"
#include "optim/step.h"
#include "tests/golden/gradients.h"
#include "tests/golden/like_pytorch.h"
#include "tests/support/tensors.h"

namespace tandem {

struct Sentences {
  static constexpr std::int64_t kSourceWords = 12, kTargetWords = 14, kNoTarget = -1;
  static constexpr std::size_t kLongest = 6, kN = 8;
  static constexpr int kBatches = 5;  // which come again and again

  Tensor source, lengths, read, target;

  // To be written backwards in another alphabet; word 0 begins and ends what is written.
  static Sentences batch(int number);
};

inline Sentences Sentences::batch(int number) {
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

struct SentencesRun {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const SentencesRun&, const SentencesRun&) = default;
};

struct FirstStepTolerance {
  double logits, gradients;
};

// Compares the first step with `golden` where one is given, which has `further` tensors beside those of every
// run.
inline SentencesRun learn_sentences(models::SequenceToSequence& model, optim::Optimizer& optimizer, int steps,
                                    const amp::Precision& precision, const safetensors::File* golden,
                                    const FirstStepTolerance& tolerance, std::size_t further = 0) {
  optim::StepOptions options = amp::step_options(precision);
  options.clip_norm = 1.0;
  optim::Step step(model, {&optimizer}, options);
  const amp::ResolvedPrecision plan(precision);
  SentencesRun run;
  for (int i = 0; i < steps; ++i) {
    const Sentences sentences = Sentences::batch(i % Sentences::kBatches);
    Tensor logits, loss;
    {
      const amp::Autocast autocast(plan);
      logits = model(sentences.source, sentences.lengths, sentences.read);
      loss = cross_entropy(logits, sentences.target,
                           {.label_smoothing = 0.1, .ignore_index = Sentences::kNoTarget});
    }
    run.losses.push_back(loss.item());
    step.backward(loss);
    if (golden && i == 0) {
      CHECK(test::normalised_error(logits.to_vector<double>(), golden->read("logits").to_vector<double>()) <
            tolerance.logits);
      for (const Parameter& parameter : model.parameters())
        check_gradient(parameter, *golden, tolerance.gradients);
      CHECK(golden->entries().size() == 5 + further + 2 * model.parameters().size());
    }
    step.apply();
  }
  CHECK(step.synchronize().applied == steps);
  for (const Parameter& parameter : model.parameters())
    run.weights.push_back(parameter.value().to_vector<float>());
  return run;
}

}  // namespace tandem
