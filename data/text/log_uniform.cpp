#include "data/text/log_uniform.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/error.h"

namespace tandem::datasets {

LogUniform::LogUniform(Index classes)
    : classes_(classes), log_range_(std::log1p(static_cast<double>(classes))) {
  require(classes > 0, "log_uniform", "there are {} classes, expected at least 1", classes);
}

double LogUniform::probability(Index k) const {
  return std::log1p(1.0 / static_cast<double>(k + 1)) / log_range_;
}

double LogUniform::probability_below(Index k) const {
  return std::log1p(static_cast<double>(k)) / log_range_;
}

Index LogUniform::draw(RandomStream& random) const {
  const std::uint64_t high = random.next_word(), low = random.next_word();
  const double u = static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
  // exp may round up to the end of the range.
  return std::min(static_cast<Index>(std::exp(u * log_range_)) - 1, classes_ - 1);
}

void check(const CandidateOptions& options) {
  require(options.samples > 0, "sampled_softmax", "{} samples, expected at least 1", options.samples);
  require(
      !options.unique || options.samples <= options.classes, "sampled_softmax",
      "{} distinct samples cannot be drawn from {} classes; draw fewer, or let them repeat (unique: false)",
      options.samples, options.classes);
}

Candidates draw_candidates(const CandidateOptions& options, const RandomKey& key) {
  check(options);
  const LogUniform distribution(options.classes);
  RandomStream random(key);
  Candidates drawn;
  const auto count = static_cast<std::size_t>(options.samples);
  drawn.ids.reserve(count);
  std::unordered_set<Index> seen;
  for (; drawn.ids.size() < count; ++drawn.tries) {
    const Index id = distribution.draw(random);
    if (!options.unique || seen.insert(id).second) drawn.ids.push_back(id);
  }
  return drawn;
}

std::vector<float> log_counts(const CandidateOptions& options, std::int64_t tries,
                              std::span<const std::int64_t> ids) {
  const LogUniform distribution(options.classes);
  const auto of = [&](std::int64_t id) {
    if (id < 0) return 0.0f;
    const double p = distribution.probability(id);
    const double count = options.unique ? -std::expm1(static_cast<double>(tries) * std::log1p(-p))
                                        : static_cast<double>(options.samples) * p;
    return static_cast<float>(std::log(count));
  };
  std::vector<float> counts(ids.size());
  std::ranges::transform(ids, counts.begin(), of);
  return counts;
}

}  // namespace tandem::datasets
