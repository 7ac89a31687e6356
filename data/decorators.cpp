#include "data/decorators.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "data/limits.h"

namespace tandem::datasets {

Subset::Subset(DatasetPtr source, std::vector<std::uint32_t> indices)
    : source_(std::move(source)), indices_(std::move(indices)) {
  info_ = source_->info();
  for (const std::uint32_t index : indices_) {
    ensure(index < source_->size(), info_.name, "sample {} of {} in a subset", index, source_->size());
  }
}

SkipUnreadable::SkipUnreadable(DatasetPtr source, Index at_most,
                               std::function<void(const std::string&)> report)
    : Decorated(std::move(source)), at_most_(at_most), report_(std::move(report)) {}

Sample SkipUnreadable::get(Index index) const {
  for (Index tried = 0;; ++tried) {
    const Index at = (index + tried) % size();
    try {
      return source_->get(at);
    } catch (const UserError& error) {
      note(at, error.what());
      if (tried + 1 == size()) throw;
    }
  }
}

Index SkipUnreadable::skipped() const {
  const std::lock_guard lock(mutex_);
  return static_cast<Index>(bad_.size());
}

void SkipUnreadable::note(Index index, const std::string& reason) const {
  const std::lock_guard lock(mutex_);
  if (!bad_.insert(index).second) return;
  if (report_) report_(reason);
  require(static_cast<Index>(bad_.size()) <= at_most_, info_.name,
          "more than {} samples cannot be read (data.max_bad_samples); the last one: {}", at_most_, reason);
}

Sample NameSkipping::get(Index index) const {
  try {
    return source_->get(index);
  } catch (const UserError& error) {
    throw UserError(error.where(),
                    fmt::format("{}; data.skip_bad_samples=true takes the next sample", error.message()));
  }
}

std::vector<std::uint32_t> permutation(Index count, std::uint64_t seed, std::uint32_t epoch) {
  ensure(count <= kMaxSamples, "shuffle", "{} samples", count);
  std::vector<std::uint32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0U);
  RandomStream random({.seed = seed, .purpose = RandomPurpose::shuffle, .step = epoch});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  return order;
}

SplitPair split_by_class(const DatasetPtr& source, const std::vector<std::int64_t>& labels, double fraction,
                         std::uint64_t seed) {
  require(fraction > 0 && fraction < 1, source->info().name, "a split of {} is not between 0 and 1",
          fraction);
  std::vector<std::vector<std::uint32_t>> by_class(static_cast<std::size_t>(source->info().classes));
  // A random order of all samples gives a random order within each class.
  for (const std::uint32_t i : permutation(source->size(), seed, 0)) {
    by_class[static_cast<std::size_t>(labels[i])].push_back(i);
  }
  std::vector<std::uint32_t> first, second;
  for (const auto& members : by_class) {
    auto share = static_cast<std::size_t>(std::llround(fraction * static_cast<double>(members.size())));
    if (members.size() >= 2) share = std::clamp<std::size_t>(share, 1, members.size() - 1);
    second.insert(second.end(), members.begin(), members.begin() + static_cast<std::ptrdiff_t>(share));
    first.insert(first.end(), members.begin() + static_cast<std::ptrdiff_t>(share), members.end());
  }
  require(!first.empty() && !second.empty(), source->info().name, "{} samples cannot be split by {}",
          source->size(), fraction);
  std::ranges::sort(first);
  std::ranges::sort(second);
  return {std::make_shared<Subset>(source, std::move(first)),
          std::make_shared<Subset>(source, std::move(second))};
}

DatasetPtr limited(const DatasetPtr& source, Index count, std::uint64_t seed) {
  if (!source || count == 0 || count >= source->size()) return source;
  std::vector<std::uint32_t> indices = permutation(source->size(), seed, 1);
  indices.resize(static_cast<std::size_t>(count));
  std::ranges::sort(indices);
  return std::make_shared<Subset>(source, std::move(indices));
}

}  // namespace tandem::datasets
