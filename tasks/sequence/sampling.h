// Sampling of the next token from a model's logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/shape.h"

namespace tandem::tasks {

struct SamplingOptions {
  double temperature = 1.0;         // divisor of logits, finite and at least 0; 0: the most probable token
  std::optional<Index> top_k = {};  // sample only from this many most probable tokens, at least 1; absent:
                                    // all
};

// Identity of a random number: equal draws give the same number, others are independent.
struct SamplingDraw {
  std::uint64_t seed = 0;
  std::uint32_t text = 0;      // among those generated with one seed
  std::uint32_t position = 0;  // of the token in its text
};

// A token of [0, logits.size()) with probability exp(logit/temperature)/Σ over the top_k largest logits, if
// given. Logits may be log-probabilities; -inf excludes a token. On ties top_k and temperature 0 prefer lower
// tokens. Computed in double, with one 53-bit number by Philox per token. Throws UserError for options out of
// range, no logits, a logit that is NaN or +inf, or all of them -inf.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const SamplingDraw& draw);

}  // namespace tandem::tasks
