#include "optim/step/gradient_buckets.h"

#include <algorithm>

namespace tandem::optim {

std::vector<Range> bucket_slots(const std::vector<FlatBuffers::Slot>& slots, std::size_t bucket_bytes) {
  std::vector<Range> buckets;
  std::size_t bytes = bucket_bytes;  // of the last bucket: full, so that the first slot opens one
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (bytes >= bucket_bytes) {
      buckets.push_back({s, s});
      bytes = 0;
    }
    buckets.back().last = s + 1;
    bytes += static_cast<std::size_t>(slots[s].count) * sizeof(float);
  }
  return buckets;
}

GradientBuckets::GradientBuckets(const FlatBuffers& buffers, ShardExchange& exchange)
    : buffers_(buffers), exchange_(exchange) {
  const auto& slots = buffers.slots();
  for (const Range& range : bucket_slots(slots, exchange.bucket_bytes())) {
    const FlatBuffers::Slot& last = slots[range.last - 1];
    const Index first = slots[range.first].first;
    buckets_.push_back({.first = first, .count = last.first + last.count - first, .slots = range.count()});
    bucket_of_.insert(bucket_of_.end(), range.count(), buckets_.size() - 1);
  }
  is_ready_.assign(slots.size(), false);
  for (std::size_t s = 0; s < slots.size(); ++s)
    slots[s].parameter.leaf().on_ready = [this, s](Leaf&) { slot_is_ready(s); };
}

GradientBuckets::~GradientBuckets() {
  for (const FlatBuffers::Slot& slot : buffers_.slots()) slot.parameter.leaf().on_ready = nullptr;
}

void GradientBuckets::slot_is_ready(std::size_t slot) {
  if (!armed_ || is_ready_[slot]) return;
  is_ready_[slot] = true;
  ++buckets_[bucket_of_[slot]].ready;
  while (next_ < buckets_.size() && buckets_[next_].ready == buckets_[next_].slots) begin_next();
}

void GradientBuckets::begin_next() {
  const Bucket& bucket = buckets_[next_++];
  exchange_.begin(buffers_.gradients().rows(bucket.first, bucket.count));
}

void GradientBuckets::begin_rest() {
  while (next_ < buckets_.size()) begin_next();
}

void GradientBuckets::drop() {
  if (due_) begin_rest();  // matches the other processes, which continued
  finish();
}

void GradientBuckets::finish() {
  forget();
  exchange_.finish();
}

void GradientBuckets::forget() {
  armed_ = due_ = false;
  next_ = 0;
  std::ranges::fill(is_ready_, false);
  for (Bucket& bucket : buckets_) bucket.ready = 0;
}

}  // namespace tandem::optim
