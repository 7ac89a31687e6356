// Candidate classes for a sampled softmax, added to the batches of another source.
#pragma once

#include "data/source.h"
#include "data/text/log_uniform.h"

namespace tandem::datasets {

// Adds fields to a source that has a "target" (i64, negative for none):
//   "candidate"            i64 [samples]   one set for the whole batch, in each of its parts
//   "candidate_log_count"  f32 [samples]   ln Q of each
//   "target_log_count"     f32 as "target" ln Q of each target, 0 for none
// The host samples them and they travel with the batch, so that a recorded step sees new ones. They are a
// function of (seed, epoch, number of the undivided batch), and thus repeat in a retry or a resumed run.
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
  std::unique_ptr<DevicePreprocess> device_preprocess() const override {
    return source_->device_preprocess();
  }

 private:
  SourcePtr source_;
  CandidateOptions options_;
  BatchLayout layout_;
};

// The three fields of the undivided batch `key`, for targets in host memory.
std::vector<Field> candidate_fields(const CandidateOptions& options, const BatchKey& key,
                                    const Tensor& target);

}  // namespace tandem::datasets
