// Sources of length buckets: the order of their batches, made per epoch on demand, and their base class.
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

// Base of sources that batch samples of similar length.
class BucketSource : public Source {
 public:
  const BatchLayout& layout() const final { return layout_; }
  Index batches(std::uint32_t epoch) const final { return epochs_.batches(epoch) * division().count; }
  Index samples_before(const BatchKey& key) const final { return epochs_.samples_before(undivided(key)); }
  Device device() const final { return device_; }
  // Undivided.
  BucketEpochs::Order order(std::uint32_t epoch) const { return epochs_.order(epoch); }

 protected:
  // `lengths` by sample; the layout has no fields yet. Throws UserError as order_buckets does, and for an
  // invalid division.
  BucketSource(std::vector<Index> lengths, BucketOptions options, Device device, const ShardSpec& division);

  // The samples of a part of a batch.
  struct Part {
    BucketEpochs::Order order;               // owns the numbers
    std::span<const std::uint32_t> whole;    // of the undivided batch
    std::span<const std::uint32_t> samples;  // of the part
    Index count = 0;                         // of them; with 0 nothing is to be filled
    Index steps = 0;                         // padded length of the undivided batch
  };
  // Begins the batch in `buffer`.
  Part begin(const BatchKey& key, BatchBuffer& buffer) const;

  BucketEpochs epochs_;
  Device device_;
  BatchLayout layout_;
};

}  // namespace tandem::datasets
