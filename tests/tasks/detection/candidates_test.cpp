// Candidates of suppression: those of logits are those of their softmax, whatever is asked of scores.
#include "tasks/detection/candidates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/ops/softmax.h"
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

std::vector<float> softmax_of(const std::vector<float>& logits, Index classes) {
  const Tensor rows = Tensor::empty({static_cast<Index>(logits.size()) / classes, classes});
  std::ranges::copy(logits, rows.data<float>());
  const Tensor scores = softmax(rows);
  return {scores.data<float>(), scores.data<float>() + scores.numel()};
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
  const std::vector<float> logits = drawn_logits(3000), scores = softmax_of(logits, kClasses);
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
    const std::vector<float> scores = softmax_of(logits, 2);
    std::ptrdiff_t above = 0;
    for (std::size_t i = 1; i < scores.size(); i += 2) above += scores[i] > score ? 1 : 0;
    const Candidates found = tasks::candidates_of_logits(logits, 2, {.score = score, .per_class = 400});
    CHECK(std::ssize(found[1]) == above);
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
