// Datasets made from other datasets.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace tandem::datasets {

// Base of decorators that keep the samples and their order.
class Decorated : public Dataset {
 public:
  Index size() const override { return source_->size(); }
  bool decodes() const override { return source_->decodes(); }
  const BoxCorpus* box_corpus() const override { return source_->box_corpus(); }

 protected:
  explicit Decorated(DatasetPtr source) : source_(std::move(source)) { info_ = source_->info(); }

  const DatasetPtr source_;
};

// The samples `indices` of another data set, in that order.
class Subset final : public Dataset {
 public:
  Subset(DatasetPtr source, std::vector<std::uint32_t> indices);

  Index size() const override { return static_cast<Index>(indices_.size()); }
  Sample get(Index index) const override { return source_->get(indices_[static_cast<std::size_t>(index)]); }
  bool decodes() const override { return source_->decodes(); }

 private:
  DatasetPtr source_;
  std::vector<std::uint32_t> indices_;
};

// Replaces an unreadable sample by the next readable one. Throws UserError, with the reasons, when more than
// `at_most` distinct samples are unreadable. Calls `report` once per bad sample, from any thread, one call at
// a time.
class SkipUnreadable final : public Decorated {
 public:
  SkipUnreadable(DatasetPtr source, Index at_most, std::function<void(const std::string&)> report = {});

  Sample get(Index index) const override;

  Index skipped() const;

 private:
  void note(Index index, const std::string& reason) const;

  Index at_most_;
  std::function<void(const std::string&)> report_;
  mutable std::mutex mutex_;
  mutable std::set<Index> bad_;
};

// Adds to the error of an unreadable sample the key that skips such samples.
class NameSkipping final : public Decorated {
 public:
  explicit NameSkipping(DatasetPtr source) : Decorated(std::move(source)) {}

  Sample get(Index index) const override;
};

// Two disjoint subsets that together are `source`, in its order. `second` has about `fraction` of the samples
// of each class, and at least one if the class has two. A pure function of labels, fraction and seed.
struct SplitPair {
  DatasetPtr first, second;
};
SplitPair split_by_class(const DatasetPtr& source, const std::vector<std::int64_t>& labels, double fraction,
                         std::uint64_t seed);

// At most `count` samples, the beginning of a fixed permutation of `source`; 0 means all.
DatasetPtr limited(const DatasetPtr& source, Index count, std::uint64_t seed);

// 0 … count−1 in random order: a pure function of (seed, epoch).
std::vector<std::uint32_t> permutation(Index count, std::uint64_t seed, std::uint32_t epoch);

}  // namespace tandem::datasets
