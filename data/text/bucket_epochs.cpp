#include "data/text/bucket_epochs.h"

namespace tandem::datasets {

std::shared_ptr<const BucketEpochs::Numbered> BucketEpochs::numbered(std::uint32_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (last_ && (last_->epoch == epoch || !options_.shuffle)) return last_;
  Numbered now{.epoch = epoch,
               .order = std::make_shared<const BucketOrder>(order_buckets(lengths_, options_, epoch)),
               .before = {0}};
  for (const BucketOrder::Batch& batch : now.order->batches)
    now.before.push_back(now.before.back() + batch.count);
  last_ = std::make_shared<const Numbered>(std::move(now));
  return last_;
}

Index BucketEpochs::batches(std::uint32_t epoch) const {
  return static_cast<Index>(order(epoch)->batches.size());
}

Index BucketEpochs::samples_before(const BatchKey& key) const {
  return numbered(key.epoch)->before.at(static_cast<std::size_t>(key.number));
}

BucketSource::BucketSource(std::vector<Index> lengths, BucketOptions options, Device device,
                           const ShardSpec& division)
    : Source(division),
      epochs_(std::move(lengths), options),
      device_(device),
      layout_(division.most(most_in_a_batch(epochs_.lengths(), options))) {}

BucketSource::Part BucketSource::begin(const BatchKey& key, BatchBuffer& buffer) const {
  Part part{.order = order(key.epoch), .whole = {}, .samples = {}};
  const Index batch = undivided(key).number;
  part.whole = part.order->samples(batch);
  part.steps = part.order->batches[static_cast<std::size_t>(batch)].length;
  const Range own = division().samples(key.number, static_cast<Index>(part.whole.size()));
  part.samples = part.whole.subspan(own.first, own.count());
  part.count = static_cast<Index>(part.samples.size());
  buffer.begin(part.count, epochs_.samples_before(undivided(key)) + static_cast<Index>(own.first));
  return part;
}

}  // namespace tandem::datasets
