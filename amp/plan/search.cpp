#include "amp/plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"

namespace tandem::amp::plan {

namespace {

enum class State : std::uint8_t { undecided, good, bad };

struct Segment {
  int first = 0, count = 0;
  State state = State::undecided;
};

// The candidates in segments, in order.
class Segments {
 public:
  explicit Segments(std::span<const int> candidates) : candidates_(candidates) {
    if (!candidates.empty()) segments_.push_back({0, static_cast<int>(candidates.size())});
  }

  std::optional<std::size_t> largest() const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < segments_.size(); ++i)
      if (segments_[i].state == State::undecided && (!best || segments_[i].count > segments_[*best].count))
        best = i;
    return best;
  }

  const Segment& at(std::size_t segment) const { return segments_[segment]; }

  void settle(std::size_t index, bool within) {
    Segment& segment = segments_[index];
    if (within || segment.count == 1) {
      segment.state = within ? State::good : State::bad;
      return;
    }
    const int half = segment.count / 2;
    const Segment rest{segment.first + half, segment.count - half};
    segment.count = half;
    segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(index) + 1, rest);
  }

  // Candidates in segments of a state, and of one additional segment.
  std::vector<int> of(State state, std::optional<std::size_t> also = std::nullopt) const {
    std::vector<int> ops;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      if (segments_[i].state != state && i != also) continue;
      const auto begin = candidates_.begin() + segments_[i].first;
      ops.insert(ops.end(), begin, begin + segments_[i].count);
    }
    return ops;
  }

 private:
  std::span<const int> candidates_;
  std::vector<Segment> segments_;
};

// The first maximum; NaN (unknown) counts as the largest.
std::size_t greatest(const std::vector<double>& shares) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < shares.size(); ++i)
    if (!std::isnan(shares[best]) && (std::isnan(shares[i]) || shares[i] > shares[best])) best = i;
  return best;
}

void verify(Search& found, Oracle& oracle) {
  while (!found.good.empty()) {
    ++found.verifications;
    if (oracle.verified(found.good)) return;
    const std::vector<double> shares = oracle.shares(found.good);
    ensure(shares.size() == found.good.size(), "plan", "{} error shares for {} ops", shares.size(),
           found.good.size());
    const auto worst = found.good.begin() + static_cast<std::ptrdiff_t>(greatest(shares));
    found.dropped.push_back(*worst);
    found.good.erase(worst);
  }
}

}  // namespace

Search search(std::span<const int> candidates, Oracle& oracle) {
  Search found;
  Segments segments(candidates);
  while (const std::optional<std::size_t> next = segments.largest()) {
    const Segment& segment = segments.at(*next);
    const bool within = oracle.within(segments.of(State::good, next));
    found.trials.push_back({segment.first, segment.count, within});
    segments.settle(*next, within);
  }
  found.good = segments.of(State::good);
  found.bad = segments.of(State::bad);
  verify(found, oracle);
  return found;
}

double share_of_error(double error, double without) {
  if (!std::isfinite(error)) return std::isfinite(without) ? 1.0 : 0.0;
  if (error == 0.0) return 0.0;
  if (!std::isfinite(without)) return -std::numeric_limits<double>::infinity();
  return (error - without) / error * ((error + without) / error);
}

}  // namespace tandem::amp::plan
