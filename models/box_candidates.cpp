#include "models/box_candidates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>

#include "core/backend.h"
#include "core/cpu/parallel.h"
#include "core/error.h"
#include "core/kernels/softmax.h"

namespace tandem::models {

namespace {

using Row = std::span<const float>;

bool some_above_or_nan(Row values, float bound) {
  std::int32_t some = 0;  // same width as the values
#pragma omp simd reduction(| : some)
  for (std::size_t i = 0; i < values.size(); ++i) some |= values[i] <= bound ? 0 : -1;
  return some != 0;
}

// Adds the scores of an anchor above `least`; most are below.
void add_surest(Row scores, Index anchor, float least, Candidates& found) {
  constexpr std::size_t kRun = 16;
  for (std::size_t first = 1; first < scores.size(); first += kRun) {
    const std::size_t last = std::min(first + kRun, scores.size());
    if (!some_above_or_nan(scores.subspan(first, last - first), least)) continue;
    for (std::size_t label = first; label < last; ++label) {
      if (scores[label] <= least) continue;
      require(!std::isnan(scores[label]), "detection", "the score of class {} at anchor {} is NaN", label,
              anchor);
      found[label].push_back({scores[label], anchor});
    }
  }
}

// Softmax [anchors.size(),classes] of the rows of `anchors`, by the CPU's kernel.
Tensor scores_of(Row logits, Index classes, std::span<const Index> anchors) {
  const Tensor rows = Tensor::empty({static_cast<Index>(anchors.size()), classes});
  const Tensor scores = Tensor::empty(rows.shape());
  float* to = rows.data<float>();
  for (const Index anchor : anchors) to = std::copy_n(logits.data() + anchor * classes, classes, to);
  backend_for({}).softmax().softmax(rows, 1, false, scores);
  return scores;
}

// Best candidates of each class over all blocks, which are in the order of their anchors.
Candidates surest(const std::vector<Candidates>& of_block, std::size_t classes,
                  const CandidateOptions& options) {
  const auto surer = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.anchor < b.anchor;
  };
  Candidates found(classes);
  for (const Candidates& block : of_block)
    for (std::size_t label = 1; label < classes; ++label)
      found[label].insert(found[label].end(), block[label].begin(), block[label].end());
  cpu::parallel_for(are_many(found), static_cast<Index>(found.size()), [&](Index label) {
    std::vector<Candidate>& each = found[static_cast<std::size_t>(label)];
    const std::size_t most = std::min(each.size(), static_cast<std::size_t>(options.per_class));
    std::partial_sort(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(most), each.end(), surer);
    each.resize(most);
  });
  return found;
}

struct AnchorRange {
  Index first, last;
};

// Calls add(range, found) for blocks of anchors, in parallel.
template <class Add>
Candidates collected(Index anchors, Index classes, const CandidateOptions& options, const Add& add) {
  constexpr Index kBlock = 1024;
  const Index blocks = (anchors + kBlock - 1) / kBlock;
  std::vector<Candidates> of_block(static_cast<std::size_t>(blocks),
                                   Candidates(static_cast<std::size_t>(classes)));
  cpu::parallel_for(true, blocks, [&](Index block) {
    const Index first = block * kBlock;
    add(AnchorRange{first, std::min(anchors, first + kBlock)}, of_block[static_cast<std::size_t>(block)]);
  });
  return surest(of_block, static_cast<std::size_t>(classes), options);
}

Row row_of(Row values, Index classes, Index anchor) {
  return values.subspan(static_cast<std::size_t>(anchor * classes), static_cast<std::size_t>(classes));
}

}  // namespace

bool are_many(const Candidates& candidates) {
  constexpr std::size_t kFew = 4096;
  std::size_t count = 0;
  for (const auto& of_class : candidates) count += of_class.size();
  return count > kFew;
}

Candidates candidates_of(std::span<const float> scores, Index classes, const CandidateOptions& options) {
  const auto least = static_cast<float>(options.score);
  const auto add = [&](AnchorRange range, Candidates& found) {
    for (Index anchor = range.first; anchor < range.last; ++anchor)
      add_surest(row_of(scores, classes, anchor), anchor, least, found);
  };
  return collected(static_cast<Index>(scores.size()) / classes, classes, options, add);
}

Candidates candidates_of_logits(std::span<const float> logits, Index classes,
                                const CandidateOptions& options) {
  // With b the logit of the background, the score of a logit x is at most 1/(1 + e^(b - x)): a score above s
  // implies x > b - ln(1/s - 1). The slack exceeds all rounding errors.
  constexpr double kSlack = 1e-3;
  const auto reach = static_cast<float>(std::log(1.0 / options.score - 1.0) + kSlack);
  const auto least = static_cast<float>(options.score);
  const auto may_hold_one = [&](Index anchor) {
    const Row row = row_of(logits, classes, anchor);
    const float bound = row[0] - reach;
    return !std::isfinite(bound) || some_above_or_nan(row.subspan(1), bound);
  };
  const auto add = [&](AnchorRange range, Candidates& found) {
    std::vector<Index> unsure;
    for (Index anchor = range.first; anchor < range.last; ++anchor)
      if (may_hold_one(anchor)) unsure.push_back(anchor);
    if (unsure.empty()) return;
    const Tensor scores = scores_of(logits, classes, unsure);
    const Row rows(scores.data<float>(), static_cast<std::size_t>(scores.numel()));
    for (std::size_t i = 0; i < unsure.size(); ++i)
      add_surest(row_of(rows, classes, static_cast<Index>(i)), unsure[i], least, found);
  };
  return collected(static_cast<Index>(logits.size()) / classes, classes, options, add);
}

}  // namespace tandem::models
