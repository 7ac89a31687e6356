#include "parallel/rank_peers.h"

#include <array>
#include <vector>

#include "core/error.h"

namespace tandem::parallel {

void RankPeers::begin(bool has_samples) {
  // The first rank with samples, and whether all have some.
  std::array<std::int64_t, 2> least{has_samples ? ranks_.rank() : ranks_.size(), has_samples ? 1 : 0};
  ranks_.all_reduce(least, Reduction::min, deadline_s_);
  const bool none = least[0] == ranks_.size(), all = least[1] == 1;
  teller_ = none || all ? -1 : static_cast<int>(least[0]);
}

std::int64_t RankPeers::told(std::int64_t length) {
  ranks_.broadcast(std::span(&length, 1), teller_, deadline_s_);
  return length;
}

void RankPeers::sum(std::span<double> values) {
  if (uneven()) {
    const auto own = static_cast<std::int64_t>(values.size()), length = told(own);
    ensure(length == own, "batch_norm", "rank {} adds up {} values, rank {} {}", ranks_.rank(), own, teller_,
           length);
  }
  ranks_.all_reduce(values, Reduction::sum, deadline_s_);
}

void RankPeers::follow() {
  if (!uneven()) return;
  std::vector<double> nothing;
  while (const std::int64_t length = told(0)) {
    nothing.assign(static_cast<std::size_t>(length), 0.0);
    ranks_.all_reduce(nothing, Reduction::sum, deadline_s_);
  }
  teller_ = -1;  // the end was announced
}

void RankPeers::end() {
  if (uneven()) told(0);
  teller_ = -1;
}

}  // namespace tandem::parallel
