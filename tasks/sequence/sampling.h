// Sampling of the next token from a model's logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::tasks {

struct SamplingOptions {
  double temperature = 1.0;         // divisor of logits, finite and at least 0; 0: the most probable token
  std::optional<Index> top_k = {};  // sample only from this many most probable tokens, at least 1; absent:
                                    // all
  // Sample only from the most probable tokens with at least this sum of probabilities, in (0, 1] (nucleus
  // sampling, Holtzman et al. 2020); absent: all.
  std::optional<double> top_p = {};
  // Above 0: divides positive logits of earlier tokens, and multiplies negative ones (Keskar et al. 2019).
  double repetition_penalty = 1.0;
};

// Identity of a random number: equal draws give the same number, others are independent.
struct SamplingDraw {
  std::uint64_t seed = 0;
  std::uint32_t text = 0;      // among those generated with one seed
  std::uint32_t position = 0;  // of the token in its text
};

// Tokens to sample from, and their weights, in ascending order of tokens.
struct Candidates {
  std::vector<std::int32_t> tokens;
  std::vector<double> weights;  // exp(logit/temperature), the largest 1
};
// Applies, in this order: repetition_penalty to the tokens of `earlier`, temperature (above 0), top_k, top_p.
// Ties prefer lower tokens. Computed in double. Throws as sample_token does.
Candidates candidates_of(std::span<const float> logits, const SamplingOptions& options,
                         std::span<const std::int32_t> earlier = {});

// A token of [0, logits.size()) with the probability of its weight among the candidates. Logits may be
// log-probabilities; -inf excludes a token. Temperature 0 takes the most probable token, on ties the lowest.
// One 53-bit number by Philox per token. Throws UserError for options out of range, no logits, a logit that
// is NaN or +inf, or all of them -inf.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const SamplingDraw& draw, std::span<const std::int32_t> earlier = {});

}  // namespace tandem::tasks
