// StridedSource: some batches of another source, as many apart: those that one of several processes takes.
#pragma once

#include "data/source.h"

namespace tandem::datasets {

// Batch k is batch first + k · every of `source`, whole. Positions are those of `source`.
class StridedSource final : public Source {
 public:
  // Throws UserError unless 0 ≤ first < every.
  StridedSource(SourcePtr source, Index first, Index every);

  // Throws InternalError: parts are taken of batches, and not of those that somebody takes.
  SourcePtr divided(const ShardSpec& division) const override;
  const BatchLayout& layout() const override { return source_->layout(); }
  Index batches(std::uint32_t epoch) const override;
  Index samples_before(const BatchKey& key) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override {
    source_->fill(of_source(key), parallel, buffer);
  }
  Device device() const override { return source_->device(); }
  std::unique_ptr<DevicePreprocess> arrival() const override { return source_->arrival(); }

 private:
  BatchKey of_source(const BatchKey& key) const { return {key.epoch, first_ + key.number * every_}; }

  SourcePtr source_;
  Index first_, every_;
};

}  // namespace tandem::datasets
