// Output softmax of a language model: the choice `softmax` of its options.
#pragma once

#include <variant>

#include "core/options/registry.h"
#include "nn/layers/adaptive_softmax.h"

namespace tandem::models {

struct FullSoftmax {};

// The full softmax trained with sampled candidates (nn/layers/sampled_softmax.h).
struct SampledSoftmaxOptions {
  Index samples = 0;   // words sampled per batch
  bool unique = true;  // without replacement
};

using WordSoftmax = std::variant<FullSoftmax, nn::AdaptiveSoftmaxOptions, SampledSoftmaxOptions>;

using SoftmaxRegistry = options::Registry<WordSoftmax()>;
SoftmaxRegistry& word_softmaxes();

// Throws OptionError, with a place below "softmax", if it does not fit these numbers of inputs and words.
void require_fitting(const WordSoftmax& softmax, Index inputs, Index words, bool tied);

}  // namespace tandem::models
