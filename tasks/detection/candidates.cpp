#include "tasks/detection/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>

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

// Whatever it is where one is no number.
float largest(Row values) {
  float most = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : most)
  for (std::size_t i = 0; i < values.size(); ++i) most = std::max(most, values[i]);
  return most;
}

void softmax_of(Row logits, std::span<float> scores) {
  const float most = largest(logits);
  for (std::size_t i = 0; i < logits.size(); ++i) scores[i] = std::exp(logits[i] - most);
  float total = 0;  // of a loop of its own: across calls it would lie in memory
  for (const float score : scores) total += score;
  for (float& score : scores) score /= total;
}

// Of each class the surest of all blocks, which are in the order of their anchors.
Candidates surest(const std::vector<Candidates>& of_block, std::size_t classes,
                  const CandidateOptions& options) {
  const auto surer = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.anchor < b.anchor;
  };
  Candidates found(classes);
#pragma omp parallel for schedule(dynamic)
  for (std::size_t label = 1; label < found.size(); ++label) {
    std::vector<Candidate>& each = found[label];
    for (const Candidates& block : of_block)
      each.insert(each.end(), block[label].begin(), block[label].end());
    const std::size_t most = std::min(each.size(), static_cast<std::size_t>(options.per_class));
    std::partial_sort(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(most), each.end(), surer);
    each.resize(most);
  }
  return found;
}

// Anchors that one thread looks at in one go.
constexpr std::size_t kBlock = 1024;

// Calls look(row, add) for the row of each anchor, where add(scores) takes what is above options.score; on
// the OpenMP team, blocks of anchors in any order, by a copy of `look` each.
template <class Look>
Candidates collected(std::span<const float> rows, Index classes, const CandidateOptions& options,
                     const Look& look) {
  const auto width = static_cast<std::size_t>(classes);
  const auto least = static_cast<float>(options.score);
  const std::size_t anchors = rows.size() / width, blocks = (anchors + kBlock - 1) / kBlock;
  std::vector<Candidates> of_block(blocks, Candidates(width));
  std::vector<std::exception_ptr> errors(blocks);
#pragma omp parallel for schedule(dynamic) if (blocks > 1)
  for (std::size_t block = 0; block < blocks; ++block) {
    Look own = look;
    Candidates& found = of_block[block];
    try {
      for (std::size_t anchor = block * kBlock; anchor < std::min(anchors, (block + 1) * kBlock); ++anchor)
        own(rows.subspan(anchor * width, width), [&](Row scores) {
          if (!some_above_or_nan(scores.subspan(1), least)) return;
          for (std::size_t label = 1; label < width; ++label) {
            if (scores[label] <= least) continue;
            require(!std::isnan(scores[label]), "detection",
                    "the score of class {} at anchor {} is no number", label, anchor);
            found[label].push_back({scores[label], static_cast<Index>(anchor)});
          }
        });
    } catch (...) {
      errors[block] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return surest(of_block, width, options);
}

}  // namespace

Candidates candidates_of(std::span<const float> scores, Index classes, const CandidateOptions& options) {
  return collected(scores, classes, options, [](Row row, const auto& add) { add(row); });
}

Candidates candidates_of_logits(std::span<const float> logits, Index classes,
                                const CandidateOptions& options) {
  // With b the logit of the background, the score of a logit x is at most 1/(1 + e^(b - x)): for one above s,
  // x is above b - ln(1/s - 1). The slack is more than what rounding does to either.
  constexpr double kSlack = 1e-3;
  const auto reach = static_cast<float>(std::log(1.0 / options.score - 1.0) + kSlack);
  std::vector<float> scores(static_cast<std::size_t>(classes));
  return collected(logits, classes, options, [reach, scores](Row row, const auto& add) mutable {
    const float bound = row[0] - reach;
    if (std::isfinite(bound) && !some_above_or_nan(row.subspan(1), bound)) return;
    softmax_of(row, scores);
    add(scores);
  });
}

}  // namespace tandem::tasks
