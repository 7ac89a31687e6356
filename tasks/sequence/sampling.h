// The next token of a generated text, drawn from what a model says of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/shape.h"

namespace tandem::tasks {

struct SamplingOptions {
  double temperature = 1.0;  // logits are divided by it, finite and at least 0; 0: the most probable token
  std::optional<Index> top_k = {};  // only so many of the most probable tokens, at least 1; absent: all
};

// Which random number: the same always draws the same, others are independent.
struct SamplingDraw {
  std::uint64_t seed = 0;
  std::uint32_t text = 0;      // among those generated with one seed
  std::uint32_t position = 0;  // of the token in its text
};

// A token of [0, logits.size()) with probability exp(logit/temperature)/Σ, of the top_k greatest logits if
// any; logits may be log-probabilities, and -inf is a token that does not come. Of equal logits those of
// lower tokens are taken first, by top_k and at temperature 0. Computed in double; one number of 53 bits by
// Philox for a token. Throws UserError for options out of range, no logits, a logit that is NaN or +inf, or
// all of them -inf.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const SamplingDraw& draw);

}  // namespace tandem::tasks
