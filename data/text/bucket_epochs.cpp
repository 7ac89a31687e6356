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

}  // namespace tandem::datasets
