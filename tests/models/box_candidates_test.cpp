// Candidates of NMS: those of logits equal those of their softmax, for any score threshold.
#include "models/box_candidates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "autograd/ops/softmax.h"
#include "core/random.h"
#include "tests/support/errors.h"

using namespace tandem;
using models::Candidate;
using models::Candidates;

namespace {

// Some rows sure of the background, some not.
std::vector<float> drawn_logits(Index anchors, Index classes) {
  RandomStream random({.seed = 11});
  std::vector<float> logits(static_cast<std::size_t>(anchors * classes));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = random.uniform(-4.0F, 4.0F);
    if (i % static_cast<std::size_t>(classes) == 0) logits[i] += random.uniform(0.0F, 8.0F);
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
  for (const Index classes : {2, 5, 37}) {
    const std::vector<float> logits = drawn_logits(3000, classes), scores = softmax_of(logits, classes);
    for (const double score : {0.0, 0.01, 0.2, 0.5, 0.9, 1.0}) {
      CAPTURE(classes, score);
      const models::CandidateOptions options{.score = score, .per_class = 400};
      const Candidates found = models::candidates_of_logits(logits, classes, options);
      check_equal(found, models::candidates_of(scores, classes, options));
      CHECK(found[0].empty());
      CHECK(found.back().empty() == (score == 1.0 || (classes == 37 && score >= 0.5)));
    }
  }
}

// Of 37 classes, by a loop.
TEST_CASE("candidates are all scores above the least one, the surest first", "[tasks][detection]") {
  constexpr Index kClasses = 37;
  const std::vector<float> scores = softmax_of(drawn_logits(300, kClasses), kClasses);
  const Candidates found = models::candidates_of(scores, kClasses, {.score = 0.2, .per_class = 3});
  std::size_t most = 0;
  for (std::size_t label = 1; label < kClasses; ++label) {
    CAPTURE(label);
    std::vector<std::pair<float, Index>> expected;
    for (Index anchor = 0; anchor < 300; ++anchor) {
      const float score = scores[static_cast<std::size_t>(anchor * kClasses) + label];
      if (score > 0.2F) expected.emplace_back(-score, anchor);
    }
    std::ranges::sort(expected);
    expected.resize(std::min<std::size_t>(expected.size(), 3));
    std::vector<std::pair<float, Index>> got;
    for (const Candidate& each : found[label]) got.emplace_back(-each.score, each.anchor);
    CHECK(got == expected);
    most = std::max(most, got.size());
  }
  CHECK(most == 3);
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
    const Candidates found = models::candidates_of_logits(logits, 2, {.score = score, .per_class = 400});
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
    CHECK_FAILS(UserError, models::candidates_of_logits(logits, 3, {.score = 0.01, .per_class = 400}),
                "at anchor 1 is NaN");
  }
  CHECK(models::candidates_of_logits(std::vector<float>{-infinite, 0, -infinite}, 3,
                                     {.score = 0.01, .per_class = 400})[1]
            .size() == 1);
}
