// Orders of batches of a source of length buckets, made per epoch on demand.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/source.h"
#include "data/text/length_buckets.h"

namespace tandem::datasets {

// Thread-safe.
class BucketEpochs {
 public:
  using Order = std::shared_ptr<const BucketOrder>;

  BucketEpochs(std::vector<Index> lengths, BucketOptions options)
      : lengths_(std::move(lengths)), options_(options) {}

  const std::vector<Index>& lengths() const { return lengths_; }  // by sample
  const BucketOptions& options() const { return options_; }

  // Caches the last epoch. Throws UserError as order_buckets does.
  Order order(std::uint32_t epoch) const { return numbered(epoch)->order; }
  Index batches(std::uint32_t epoch) const;
  // As Source::samples_before.
  Index samples_before(const BatchKey& key) const;

 private:
  struct Numbered {
    std::uint32_t epoch = 0;
    Order order;
    std::vector<Index> before;  // samples of the first k batches
  };
  std::shared_ptr<const Numbered> numbered(std::uint32_t epoch) const;

  std::vector<Index> lengths_;
  BucketOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Numbered> last_;
};

}  // namespace tandem::datasets
