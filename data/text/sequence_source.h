// Batches of labelled sequences of varying length, by length buckets.
//
// Fields: "token" i64 [T,N], padded with 0 behind each sequence; "length" i64 [N]; "label" i64 [N]. T and N
// are those of the batch in its epoch's plan (data/text/length_buckets.h). Batch::samples and Batch::weight
// are N.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/source.h"
#include "data/text/length_buckets.h"

namespace tandem::datasets {

struct LabelledSequences {
  std::vector<std::int32_t> ids;  // sequence after sequence
  std::vector<Index> begins{0};   // where each begins, and the end of the last
  std::vector<std::int64_t> labels;

  Index size() const { return static_cast<Index>(labels.size()); }
  void add(std::span<const std::int32_t> sequence, std::int64_t label);
  std::vector<Index> lengths() const;
};

class SequenceSource final : public Source {
 public:
  using Sequences = std::shared_ptr<const LabelledSequences>;

  // Throws UserError as plan_buckets does.
  SequenceSource(Sequences sequences, BucketOptions options, Device device = {});

  const BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t epoch) const override;
  Index samples_before(const BatchKey& key) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  Device device() const override { return device_; }

  using Plan = std::shared_ptr<const BucketPlan>;
  // That of an epoch. The last one asked for is kept.
  Plan plan(std::uint32_t epoch) const;

 private:
  struct Numbered {
    std::uint32_t epoch = 0;
    Plan plan;
    std::vector<Index> before;  // samples of the first k batches
  };
  std::shared_ptr<const Numbered> numbered(std::uint32_t epoch) const;

  Sequences sequences_;
  std::vector<Index> lengths_;
  BucketOptions options_;
  Device device_;
  BatchLayout layout_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Numbered> last_;
};

}  // namespace tandem::datasets
