#include "metrics/error_rate.h"

#include <algorithm>
#include <tuple>

#include "core/error.h"

namespace tandem::metrics {

namespace {

// A cost is errors·kError - substitutions: the minimum has the fewest errors, and among those the most
// substitutions.
constexpr std::int64_t kError = std::int64_t{1} << 31;

template <class Symbol>
std::int64_t least_cost(std::span<const Symbol> reference, std::span<const Symbol> hypothesis) {
  // After r symbols of the reference, entry h is the edit cost to the first h symbols of the hypothesis.
  std::vector<std::int64_t> costs(hypothesis.size() + 1);
  for (std::size_t h = 0; h < costs.size(); ++h) costs[h] = static_cast<std::int64_t>(h) * kError;
  for (const Symbol& symbol : reference) {
    std::int64_t diagonal = costs[0];
    costs[0] += kError;
    for (std::size_t h = 1; h < costs.size(); ++h) {
      const std::int64_t matched = diagonal + (symbol == hypothesis[h - 1] ? 0 : kError - 1);
      diagonal = costs[h];
      costs[h] = std::min({matched, costs[h] + kError, costs[h - 1] + kError});
    }
  }
  return costs.back();
}

template <class Symbol>
Edits edits_between(std::span<const Symbol> reference, std::span<const Symbol> hypothesis) {
  const auto length = static_cast<std::int64_t>(reference.size());
  const auto longer = static_cast<std::int64_t>(hypothesis.size()) - length;  // insertions minus deletions
  require(std::max(length, length + longer) < kError, "error_rate",
          "sequences must have less than 2^31 symbols, got {} and {}", reference.size(), hypothesis.size());
  const std::int64_t cost = least_cost(reference, hypothesis);
  const std::int64_t errors = (cost + kError - 1) / kError, substitutions = errors * kError - cost;
  const std::int64_t others = errors - substitutions;
  return {.substitutions = substitutions,
          .deletions = (others - longer) / 2,
          .insertions = (others + longer) / 2,
          .reference_length = length};
}

template <class Symbol>
Edits nearest(std::span<const std::vector<Symbol>> references, std::span<const Symbol> hypothesis) {
  require(!references.empty(), "error_rate", "a hypothesis needs at least one reference, got none");
  Edits best = edits_between<Symbol>(references[0], hypothesis);
  const auto rank = [](const Edits& edits) {
    return std::tuple(edits.errors(), -edits.reference_length, -edits.substitutions);
  };
  for (const std::vector<Symbol>& reference : references.subspan(1)) {
    const Edits edits = edits_between<Symbol>(reference, hypothesis);
    if (rank(edits) < rank(best)) best = edits;
  }
  return best;
}

double quotient(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Edits& Edits::operator+=(const Edits& other) {
  substitutions += other.substitutions;
  deletions += other.deletions;
  insertions += other.insertions;
  reference_length += other.reference_length;
  return *this;
}

Edits edits_of(std::span<const std::int32_t> reference, std::span<const std::int32_t> hypothesis) {
  return edits_between(reference, hypothesis);
}

Edits edits_of(std::span<const std::string> reference, std::span<const std::string> hypothesis) {
  return edits_between(reference, hypothesis);
}

Edits nearest_edits(std::span<const std::vector<std::int32_t>> references,
                    std::span<const std::int32_t> hypothesis) {
  return nearest(references, hypothesis);
}

Edits nearest_edits(std::span<const std::vector<std::string>> references,
                    std::span<const std::string> hypothesis) {
  return nearest(references, hypothesis);
}

void ErrorRate::add(const Edits& edits) {
  sum_ += edits;
  ++sequences_;
  if (edits.errors() > 0) ++wrong_;
}

void ErrorRate::merge(const ErrorRate& other) {
  sum_ += other.sum_;
  sequences_ += other.sequences_;
  wrong_ += other.wrong_;
}

double ErrorRate::rate() const { return quotient(sum_.errors(), sum_.reference_length); }
double ErrorRate::sequence_error_rate() const { return quotient(wrong_, sequences_); }

}  // namespace tandem::metrics
