#include "data/strided_source.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace tandem::datasets {

StridedSource::StridedSource(SourcePtr source, Index first, Index every)
    : source_(std::move(source)), first_(first), every_(every) {
  require(first >= 0 && first < every, "source", "every {}th batch from batch {} on: expected 0 to {}", every,
          first, every - 1);
}

SourcePtr StridedSource::divided(const ShardSpec&) const {
  throw InternalError("division", "a strided source cannot be divided; divide its source first");
}

Index StridedSource::batches(std::uint32_t epoch) const {
  const Index all = source_->batches(epoch);
  return (std::max(all - first_, Index{0}) + every_ - 1) / every_;
}

Index StridedSource::samples_before(const BatchKey& key) const {
  BatchKey of = of_source(key);
  of.number = std::min(of.number, source_->batches(key.epoch));
  return source_->samples_before(of);
}

}  // namespace tandem::datasets
