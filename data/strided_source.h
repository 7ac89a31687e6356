// StridedSource: every n-th batch of another source, as one of several processes takes them.
#pragma once

#include "data/source.h"

namespace tandem::datasets {

// Batch k is batch first + k · every of `source`, undivided. Positions are those of `source`.
class StridedSource final : public Source {
 public:
  // Throws UserError unless 0 ≤ first < every.
  StridedSource(SourcePtr source, Index first, Index every);

  // Throws InternalError: divide the source before it is strided.
  SourcePtr divided(const ShardSpec& division) const override;
  const BatchLayout& layout() const override { return source_->layout(); }
  Index batches(std::uint32_t epoch) const override;
  Index samples_before(const BatchKey& key) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override {
    source_->fill(of_source(key), parallel, buffer);
  }
  Device device() const override { return source_->device(); }
  std::unique_ptr<DevicePreprocess> device_preprocess() const override {
    return source_->device_preprocess();
  }

 private:
  BatchKey of_source(const BatchKey& key) const { return {key.epoch, first_ + key.number * every_}; }

  SourcePtr source_;
  Index first_, every_;
};

}  // namespace tandem::datasets
