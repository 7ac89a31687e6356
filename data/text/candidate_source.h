// Batches of another source with the classes that a sampled softmax compares their targets with.
#pragma once

#include "data/source.h"
#include "data/text/log_uniform.h"

namespace tandem::datasets {

// Adds to the fields of a source that has a "target" (i64, below 0 where there is none):
//   "candidate"            i64 [samples]   one set for the whole batch, in every part of it
//   "candidate_log_count"  f32 [samples]   ln Q of each
//   "target_log_count"     f32 as "target" ln Q of each target, 0 where there is none
// They are drawn on the host and travel with the batch, so that a step whose work is recorded sees new ones.
// A function of (seed, epoch, number of the undivided batch), hence the same when a batch is tried again or a
// run goes on.
class CandidateSource final : public Source {
 public:
  // Throws UserError as check() does.
  CandidateSource(SourcePtr source, const CandidateOptions& options);

  SourcePtr divided(const ShardSpec& division) const override;
  const BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t epoch) const override { return source_->batches(epoch); }
  Index samples_before(const BatchKey& key) const override { return source_->samples_before(key); }
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  Device device() const override { return source_->device(); }
  std::unique_ptr<DevicePreprocess> arrival() const override { return source_->arrival(); }

 private:
  SourcePtr source_;
  CandidateOptions options_;
  BatchLayout layout_;
};

// The three fields for targets in host memory, as the undivided batch `key` has them.
std::vector<Field> candidate_fields(const CandidateOptions& options, const BatchKey& key,
                                    const Tensor& target);

}  // namespace tandem::datasets
