#include "tasks/detection/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/error.h"

namespace tandem::tasks {

namespace {

using Row = std::span<const float>;

bool some_above_or_nan(Row values, float bound) {
  std::int32_t some = 0;  // as wide as the values
#pragma omp simd reduction(| : some)
  for (std::size_t i = 0; i < values.size(); ++i) some |= values[i] <= bound ? 0 : 1;
  return some != 0;
}

void softmax_of(Row logits, std::span<float> scores) {
  const float most = std::ranges::max(logits);
  float total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) total += scores[i] = std::exp(logits[i] - most);
  for (float& score : scores) score /= total;
}

// Calls look(row, add) for the row of each anchor, where add(scores) takes what is above options.score.
template <class Look>
Candidates collected(std::span<const float> rows, Index classes, const CandidateOptions& options,
                     const Look& look) {
  const auto width = static_cast<std::size_t>(classes);
  const auto least = static_cast<float>(options.score);
  Candidates found(width);
  for (std::size_t anchor = 0; anchor < rows.size() / width; ++anchor) {
    look(rows.subspan(anchor * width, width), [&](Row scores) {
      for (std::size_t label = 1; label < width; ++label) {
        if (scores[label] <= least) continue;
        require(!std::isnan(scores[label]), "detection", "the score of class {} at anchor {} is no number",
                label, anchor);
        found[label].push_back({scores[label], static_cast<Index>(anchor)});
      }
    });
  }
  const auto surer = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.anchor < b.anchor;
  };
  for (std::vector<Candidate>& each : found) {
    const std::size_t most = std::min(each.size(), static_cast<std::size_t>(options.per_class));
    std::partial_sort(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(most), each.end(), surer);
    each.resize(most);
  }
  return found;
}

}  // namespace

Candidates candidates_of(std::span<const float> scores, Index classes, const CandidateOptions& options) {
  const auto least = static_cast<float>(options.score);
  return collected(scores, classes, options, [&](Row row, const auto& add) {
    if (some_above_or_nan(row.subspan(1), least)) add(row);
  });
}

Candidates candidates_of_logits(std::span<const float> logits, Index classes,
                                const CandidateOptions& options) {
  // With b the logit of the background, the score of a logit x is at most 1/(1 + e^(b - x)): for one above s,
  // x is above b - ln(1/s - 1). The slack is more than what rounding does to either.
  constexpr double kSlack = 1e-3;
  const auto reach = static_cast<float>(std::log(1.0 / options.score - 1.0) + kSlack);
  std::vector<float> scores(static_cast<std::size_t>(classes));
  return collected(logits, classes, options, [&](Row row, const auto& add) {
    const float bound = row[0] - reach;
    if (std::isfinite(bound) && !some_above_or_nan(row.subspan(1), bound)) return;
    softmax_of(row, scores);
    add(scores);
  });
}

}  // namespace tandem::tasks
