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
  const double top_p = options.top_p.value_or(1.0);
  require(top_p > 0.0 && top_p <= 1.0, "sample_token",
          "top_p must lie in (0, 1] (absent: all tokens), got {}", top_p);
  require(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0.0, "sample_token",
          "repetition_penalty must be a finite number above 0 (1: none), got {}", options.repetition_penalty);
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

std::vector<double> penalised_logits(std::span<const float> logits, const SamplingOptions& options,
                                     std::span<const std::int32_t> earlier) {
  check(logits, options);
  std::vector<double> scores(logits.begin(), logits.end());
  if (options.repetition_penalty != 1.0) {
    for (const std::int32_t token : earlier) {
      const auto at = static_cast<std::size_t>(token);
      const double logit = logits[at];  // a repeated token is penalised once
      scores[at] = logit > 0.0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
    }
  }
  require(std::ranges::max(scores) > -kInfiniteLogit, "sample_token",
          "all {} logits are -inf: no token can be sampled", logits.size());
  return scores;
}

// The `count` tokens with the largest scores, lower ones first on ties: in ascending order if these are all
// tokens, else by descending score if `sorted`, else in any order.
std::vector<std::int32_t> greatest(std::span<const double> scores, Index count, bool sorted) {
  std::vector<std::int32_t> tokens(scores.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const double left = scores[static_cast<std::size_t>(a)], right = scores[static_cast<std::size_t>(b)];
    return left > right || (left == right && a < b);
  };
  if (count < static_cast<Index>(tokens.size())) {
    std::nth_element(tokens.begin(), tokens.begin() + count, tokens.end(), before);
    tokens.resize(static_cast<std::size_t>(count));
  }
  if (sorted) std::sort(tokens.begin(), tokens.end(), before);
  return tokens;
}

}  // namespace

Candidates candidates_of(std::span<const float> logits, const SamplingOptions& options,
                         std::span<const std::int32_t> earlier) {
  const std::vector<double> scores = penalised_logits(logits, options, earlier);
  const double most = std::ranges::max(scores);
  const auto weight_of = [&](std::int32_t token) {
    return std::exp((scores[static_cast<std::size_t>(token)] - most) / options.temperature);
  };
  Candidates candidates;
  const auto size = static_cast<Index>(scores.size());
  candidates.tokens = greatest(scores, options.top_k.value_or(size), options.top_p.has_value());
  if (options.top_p) {
    double all = 0.0, kept = 0.0;
    for (const std::int32_t token : candidates.tokens) all += weight_of(token);
    std::size_t count = 0;
    while (count < candidates.tokens.size() && kept < *options.top_p * all)
      kept += weight_of(candidates.tokens[count++]);
    candidates.tokens.resize(count);
  }
  std::sort(candidates.tokens.begin(), candidates.tokens.end());
  for (const std::int32_t token : candidates.tokens) candidates.weights.push_back(weight_of(token));
  return candidates;
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const SamplingDraw& draw, std::span<const std::int32_t> earlier) {
  if (options.temperature == 0.0) {
    const std::vector<double> scores = penalised_logits(logits, options, earlier);
    return static_cast<std::int32_t>(std::ranges::max_element(scores) - scores.begin());  // the first maximum
  }
  const Candidates candidates = candidates_of(logits, options, earlier);
  std::vector<double> sums;  // cumulative weights
  double sum = 0.0;
  for (const double weight : candidates.weights) sums.push_back(sum += weight);
  // The first token with a greater sum: never one of weight 0, whose sum equals the one before. It exists: u
  // <= 1 - 2⁻⁵³, so u·sum rounds to less than the sum.
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), uniform(draw) * sum);
  return candidates.tokens[static_cast<std::size_t>(drawn - sums.begin())];
}

}  // namespace tandem::tasks
