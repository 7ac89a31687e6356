#include "tasks/sequence/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/random.h"

namespace tandem::tasks {

namespace {

constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();

void check(std::span<const float> logits, const SamplingOptions& options) {
  require(std::isfinite(options.temperature) && options.temperature >= 0.0, "sample_token",
          "temperature must be a finite number of at least 0 (0: the most probable token), got {}",
          options.temperature);
  const Index top_k = options.top_k.value_or(1);
  require(top_k >= 1, "sample_token", "top_k must be at least 1 (absent: all tokens), got {}", top_k);
  require(!logits.empty(), "sample_token", "sampling needs at least one logit, got none");
  for (std::size_t token = 0; token < logits.size(); ++token)
    require(logits[token] < kInfiniteLogit, "sample_token",
            "the logit of token {} is {}, expected a number below +inf", token, logits[token]);
}

// Uniform in [0, 1) with 53 bits.
double uniform(const SamplingDraw& draw) {
  const auto words = philox({.seed = draw.seed, .call = draw.text, .step = draw.position}, 0);
  const std::uint64_t bits = std::uint64_t{words[0]} << 21 | words[1] >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// The `count` tokens with the largest logits (lower tokens first on ties), in ascending order.
std::vector<std::int32_t> greatest(std::span<const float> logits, Index count) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (count >= static_cast<Index>(tokens.size())) return tokens;
  std::nth_element(tokens.begin(), tokens.begin() + count, tokens.end(), [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)], right = logits[static_cast<std::size_t>(b)];
    return left > right || (left == right && a < b);
  });
  tokens.resize(static_cast<std::size_t>(count));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const SamplingDraw& draw) {
  check(logits, options);
  const auto most = std::max_element(logits.begin(), logits.end());  // the first maximum
  require(*most > -kInfiniteLogit, "sample_token", "all {} logits are -inf: no token can be sampled",
          logits.size());
  if (options.temperature == 0.0) return static_cast<std::int32_t>(most - logits.begin());

  const auto size = static_cast<Index>(logits.size());
  const std::vector<std::int32_t> tokens = greatest(logits, options.top_k.value_or(size));
  std::vector<double> sums;  // cumulative weights
  double sum = 0.0;
  for (const std::int32_t token : tokens) {
    const double below = static_cast<double>(logits[static_cast<std::size_t>(token)]) - *most;
    sums.push_back(sum += std::exp(below / options.temperature));
  }
  // The first token with a greater sum: never one of weight 0, whose sum equals the one before. It exists: u
  // <= 1 - 2⁻⁵³, so u·sum rounds to less than the sum.
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), uniform(draw) * sum);
  return tokens[static_cast<std::size_t>(drawn - sums.begin())];
}

}  // namespace tandem::tasks
