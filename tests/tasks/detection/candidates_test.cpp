// Candidates of suppression: those of logits are those of their softmax, whatever is asked of scores.
#include "tasks/detection/candidates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "tests/support/errors.h"

using namespace tandem;
using tasks::Candidate;
using tasks::Candidates;

namespace {

constexpr Index kClasses = 5;

// Some rows sure of the background, some not.
std::vector<float> drawn_logits(Index anchors) {
  RandomStream random({.seed = 11});
  std::vector<float> logits(static_cast<std::size_t>(anchors * kClasses));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = random.uniform(-4.0F, 4.0F);
    if (i % kClasses == 0) logits[i] += random.uniform(0.0F, 8.0F);
  }
  return logits;
}

std::vector<float> softmax_of(const std::vector<float>& logits) {
  std::vector<float> scores(logits.size());
  for (std::size_t at = 0; at < logits.size(); at += kClasses) {
    const float most = *std::max_element(logits.begin() + static_cast<std::ptrdiff_t>(at),
                                         logits.begin() + static_cast<std::ptrdiff_t>(at + kClasses));
    float total = 0;
    for (std::size_t c = at; c < at + kClasses; ++c) total += scores[c] = std::exp(logits[c] - most);
    for (std::size_t c = at; c < at + kClasses; ++c) scores[c] /= total;
  }
  return scores;
}

void check_equal(const Candidates& a, const Candidates& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t label = 0; label < a.size(); ++label) {
    REQUIRE(a[label].size() == b[label].size());
    for (std::size_t i = 0; i < a[label].size(); ++i) {
      CHECK(a[label][i].anchor == b[label][i].anchor);
      CHECK(a[label][i].score == b[label][i].score);
    }
  }
}

}  // namespace

TEST_CASE("candidates of logits are those of their softmax", "[tasks][detection]") {
  const std::vector<float> logits = drawn_logits(3000), scores = softmax_of(logits);
  for (const double score : {0.0, 0.01, 0.2, 0.5, 0.9, 1.0}) {
    CAPTURE(score);
    const tasks::CandidateOptions options{.score = score, .per_class = 400};
    const Candidates found = tasks::candidates_of_logits(logits, kClasses, options);
    check_equal(found, tasks::candidates_of(scores, kClasses, options));
    CHECK(found[0].empty());
    CHECK(found[1].empty() == (score == 1.0));
  }
}

TEST_CASE("a logit at the border of a score is looked at", "[tasks][detection]") {
  // Two classes: the score of the second is 1/(1 + e^d).
  for (const float score : {0.01F, 0.3F, 0.7F}) {
    const float d = std::log(1.0F / score - 1.0F);
    std::vector<float> logits;
    for (int step = -50; step <= 50; ++step) {
      logits.push_back(3.0F + d + 1e-7F * static_cast<float>(step));
      logits.push_back(3.0F);
    }
    std::size_t above = 0;
    for (std::size_t i = 0; i < logits.size(); i += 2) {
      const float most = std::max(logits[i], logits[i + 1]);
      const float a = std::exp(logits[i] - most), b = std::exp(logits[i + 1] - most);
      above += b / (a + b) > score ? 1 : 0;
    }
    const Candidates found = tasks::candidates_of_logits(logits, 2, {.score = score, .per_class = 400});
    CHECK(found[1].size() == above);
  }
}

TEST_CASE("logits whose softmax is no number are refused", "[tasks][detection]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& row :
       {std::vector<float>{nan, 0, 0}, std::vector<float>{9, nan, 0}, std::vector<float>{infinite, 0, 0},
        std::vector<float>{0, 0, infinite}, std::vector<float>{-infinite, -infinite, -infinite}}) {
    std::vector<float> logits{9, 0, 0};
    logits.insert(logits.end(), row.begin(), row.end());
    CHECK_FAILS(UserError, tasks::candidates_of_logits(logits, 3, {.score = 0.01, .per_class = 400}),
                "at anchor 1 is no number");
  }
  CHECK(tasks::candidates_of_logits(std::vector<float>{-infinite, 0, -infinite}, 3,
                                    {.score = 0.01, .per_class = 400})[1]
            .size() == 1);
}
