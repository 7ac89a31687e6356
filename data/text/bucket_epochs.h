// The epochs of a source of length buckets: the plan of each, made when it is asked for.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/source.h"
#include "data/text/length_buckets.h"

namespace tandem::datasets {

// May be asked by several threads at once.
class BucketEpochs {
 public:
  using Plan = std::shared_ptr<const BucketOrder>;

  BucketEpochs(std::vector<Index> lengths, BucketOptions options)
      : lengths_(std::move(lengths)), options_(options) {}

  const std::vector<Index>& lengths() const { return lengths_; }  // by sample
  const BucketOptions& options() const { return options_; }

  // The last one asked for is kept. Throws UserError as order_buckets does.
  Plan plan(std::uint32_t epoch) const { return numbered(epoch)->plan; }
  Index batches(std::uint32_t epoch) const;
  // As Source has it.
  Index samples_before(const BatchKey& key) const;

 private:
  struct Numbered {
    std::uint32_t epoch = 0;
    Plan plan;
    std::vector<Index> before;  // samples of the first k batches
  };
  std::shared_ptr<const Numbered> numbered(std::uint32_t epoch) const;

  std::vector<Index> lengths_;
  BucketOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Numbered> last_;
};

}  // namespace tandem::datasets
