// How a language model's output gives probabilities of words: the choice `softmax` of its options.
#pragma once

#include <variant>

#include "core/options/registry.h"
#include "nn/layers/adaptive_softmax.h"

namespace tandem::models {

struct FullSoftmax {};

// The full softmax, trained against words that are drawn (nn/layers/sampled_softmax.h).
struct SampledSoftmaxOptions {
  Index samples = 0;   // words drawn for a batch
  bool unique = true;  // none of them twice
};

using WordSoftmax = std::variant<FullSoftmax, nn::AdaptiveSoftmaxOptions, SampledSoftmaxOptions>;

using SoftmaxRegistry = options::Registry<WordSoftmax()>;
const SoftmaxRegistry& word_softmaxes();

// Throws OptionError, whose place is below "softmax", for what does not go with so many inputs and words.
void require_fitting(const WordSoftmax& softmax, Index inputs, Index words, bool tied);

}  // namespace tandem::models
