// Batches of labelled sequences of varying length, by length buckets.
//
// Fields: "token" i64 [T,N], padded with 0; "length" i64 [N]; "label" i64 [N]. T and N are those of the batch
// in the epoch's order (data/text/length_buckets.h). Batch::samples and Batch::weight are N.
#pragma once

#include <memory>
#include <vector>

#include "data/text/bucket_epochs.h"

namespace tandem::datasets {

struct LabelledSequences {
  std::vector<std::int32_t> ids;  // concatenated sequences
  std::vector<Index> begins{0};   // their offsets, and the end of the last
  std::vector<std::int64_t> labels;

  Index size() const { return static_cast<Index>(labels.size()); }
  void add(std::span<const std::int32_t> sequence, std::int64_t label);
  std::vector<Index> lengths() const;
};

class SequenceSource final : public BucketSource {
 public:
  using Sequences = std::shared_ptr<const LabelledSequences>;

  // Throws UserError as order_buckets does, and for an invalid division.
  SequenceSource(Sequences sequences, BucketOptions options, Device device = {},
                 const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;

  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;

 private:
  Sequences sequences_;
};

}  // namespace tandem::datasets
