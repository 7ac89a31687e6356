// The next token of a text: greedy, and frequencies against probabilities.
#include "tasks/sequence/sampling.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"

using namespace tandem;
using tasks::sample_token;
using tasks::SamplingDraw;
using tasks::SamplingOptions;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kDraws = 40000;

std::vector<int> counts_of(const std::vector<float>& logits, const SamplingOptions& options,
                           std::uint64_t seed = 1) {
  std::vector<int> counts(logits.size());
  for (std::uint32_t i = 0; i < kDraws; ++i)
    ++counts[static_cast<std::size_t>(
        sample_token(logits, options, {.seed = seed, .text = i % 7, .position = i}))];
  return counts;
}

// Counts of independent draws are binomial: five deviations are passed by one in two million.
void check_frequencies(const std::vector<int>& counts, const std::vector<double>& probabilities) {
  for (std::size_t token = 0; token < counts.size(); ++token) {
    CAPTURE(token);
    const double p = probabilities[token], expected = kDraws * p;
    if (p == 0.0) CHECK(counts[token] == 0);
    CHECK(std::abs(counts[token] - expected) <= 5 * std::sqrt(expected * (1 - p)));
  }
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0.0;
  for (const float logit : logits) sum += p.emplace_back(std::exp(logit / temperature));
  for (double& each : p) each /= sum;
  return p;
}

}  // namespace

TEST_CASE("tokens are drawn as often as they are probable", "[sampling]") {
  const std::vector<float> logits{1.0F, -2.0F, 0.5F, 2.5F, -kInfinity, 0.5F, -6.0F};
  for (const double temperature : {0.3, 1.0, 2.0})
    check_frequencies(counts_of(logits, {.temperature = temperature}), softmax(logits, temperature));
  check_frequencies(counts_of({-1000.0F, -1000.0F}, {}, 9), {0.5, 0.5});
  check_frequencies(counts_of({1e30F, 3e38F, 3e38F}, {.temperature = 1e-300}), {0.0, 0.5, 0.5});
}

TEST_CASE("penalty, temperature, top_k and top_p give the probabilities of another implementation",
          "[sampling]") {
  const std::vector<float> logits{2.0F, 1.0F, 0.0F, -1.0F};
  const auto check = [&](const SamplingOptions& options, const std::vector<std::int32_t>& earlier,
                         const std::vector<std::int32_t>& tokens, const std::vector<double>& expected) {
    const tasks::Candidates found = tasks::candidates_of(logits, options, earlier);
    CHECK(found.tokens == tokens);
    REQUIRE(found.weights.size() == expected.size());
    double sum = 0.0;
    for (const double weight : found.weights) sum += weight;
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(found.weights[i] / sum == Approx(expected[i]).margin(1e-6));
  };
  check({}, {}, {0, 1, 2, 3}, {0.643914, 0.236883, 0.087144, 0.032059});
  check({.top_p = 0.7}, {}, {0, 1}, {0.731059, 0.268941});  // with the token that crosses the sum
  check({.repetition_penalty = 1.2}, {0, 3, 0}, {0, 1, 2, 3}, {0.568446, 0.291850, 0.107366, 0.032338});
  check({.top_k = 3, .top_p = 1.0}, {}, {0, 1, 2}, {0.665241, 0.244728, 0.090031});
  check({.top_p = 1e-9}, {}, {0}, {1.0});
  // The penalty comes before greedy choices, too.
  CHECK(sample_token(logits, {.temperature = 0.0, .repetition_penalty = 3.0}, {}, std::vector{0}) == 1);
}

TEST_CASE("top_k keeps the most probable tokens, lower ones first", "[sampling]") {
  const std::vector<float> logits{0.5F, -2.0F, 2.0F, 0.5F, 1.0F, 0.5F};
  const double a = std::exp(2.0), b = std::exp(1.0), c = std::exp(0.5);
  check_frequencies(counts_of(logits, {.top_k = 2}), {0, 0, a / (a + b), 0, b / (a + b), 0});
  const double three = a + b + c, four = three + c;
  check_frequencies(counts_of(logits, {.top_k = 3}), {c / three, 0, a / three, 0, b / three, 0});
  check_frequencies(counts_of(logits, {.top_k = 4}), {c / four, 0, a / four, c / four, b / four, 0});
  CHECK(counts_of(logits, {.top_k = 6}) == counts_of(logits, {}));
  CHECK(counts_of(logits, {.top_k = 1000}) == counts_of(logits, {}));
  CHECK(counts_of(logits, {.top_k = 1})[2] == kDraws);
  // A token of probability 0 is not drawn although it is among the first.
  CHECK(counts_of({-kInfinity, 0.0F, -kInfinity}, {.top_k = 2})[1] == kDraws);
}

TEST_CASE("temperature 0 takes the most probable token, the lowest of equals", "[sampling]") {
  const SamplingOptions greedy{.temperature = 0.0};
  for (std::uint32_t position = 0; position < 20; ++position) {
    CHECK(sample_token(std::vector{0.0F, 3.0F, -1.0F, 3.0F}, greedy, {.position = position}) == 1);
    CHECK(sample_token(std::vector{-kInfinity, -kInfinity, -5.0F}, greedy, {.position = position}) == 2);
  }
}

TEST_CASE("a draw is a function of seed, text and position", "[sampling]") {
  const std::vector<float> logits(1 << 16, 0.0F);
  const auto draw = [&](const SamplingDraw& which) { return sample_token(logits, {}, which); };
  const std::int32_t first = draw({.seed = 5, .text = 2, .position = 3});
  CHECK(draw({.seed = 6, .text = 2, .position = 3}) != first);
  CHECK(draw({.seed = 5, .text = 3, .position = 3}) != first);
  CHECK(draw({.seed = 5, .text = 2, .position = 4}) != first);
  CHECK(draw({.seed = 5, .text = 3, .position = 2}) != first);
  CHECK(draw({.seed = 5, .text = 2, .position = 3}) == first);

  // Neighbouring positions are independent: pairs are as frequent as the product says.
  const std::vector<float> coin{0.0F, 0.0F};
  std::vector<int> pairs(4);
  for (std::uint32_t i = 0; i < kDraws; ++i)
    ++pairs[static_cast<std::size_t>(2 * sample_token(coin, {}, {.seed = 3, .position = 2 * i}) +
                                     sample_token(coin, {}, {.seed = 3, .position = 2 * i + 1}))];
  check_frequencies(pairs, {0.25, 0.25, 0.25, 0.25});
}

TEST_CASE("invalid distributions are refused", "[sampling]") {
  using Catch::Matchers::Contains;
  const std::vector<float> logits{0.0F, 1.0F};
  const auto draw = [](const std::vector<float>& from, const SamplingOptions& options = {}) {
    return sample_token(from, options, {});
  };
  CHECK_THROWS_WITH(draw(logits, {.temperature = -0.5}),
                    Contains("temperature must be a finite number of at least 0"));
  CHECK_THROWS_AS(draw(logits, {.temperature = HUGE_VAL}), UserError);
  CHECK_THROWS_AS(draw(logits, {.temperature = std::nan("")}), UserError);
  CHECK_THROWS_WITH(draw(logits, {.top_k = 0}),
                    "[sample_token] top_k must be at least 1 (absent: all tokens), got 0");
  CHECK_THROWS_WITH(draw(logits, {.top_p = 0.0}),
                    "[sample_token] top_p must lie in (0, 1] (absent: all tokens), got 0");
  CHECK_THROWS_AS(draw(logits, {.top_p = 1.5}), UserError);
  CHECK_THROWS_WITH(draw(logits, {.repetition_penalty = 0.0}),
                    Contains("repetition_penalty must be a finite number above 0"));
  CHECK_THROWS_AS(draw({}), UserError);
  for (const double temperature : {0.0, 1.0}) {
    CHECK_THROWS_WITH(draw({0.0F, std::nanf("")}, {.temperature = temperature}),
                      Contains("the logit of token 1 is nan"));
    CHECK_THROWS_WITH(draw({kInfinity, 0.0F}, {.temperature = temperature}), Contains("token 0 is inf"));
    CHECK_THROWS_WITH(draw({-kInfinity, -kInfinity}, {.temperature = temperature}),
                      Contains("all 2 logits are -inf"));
  }
}
