// Batches of pairs of sequences of varying length, by length buckets.
//
// Fields, time-major:
// - "source": i64 [S,N], padded with 0; "source_length": i64 [N]
// - "target_in": i64 [T,N], begin and the target, padded with 0
// - "target": i64 [T,N], the target and end, padded with kNoTarget (stream_source.h)
// - "target_length": i64 [N], of either, one more than the target's
// - "pair": i64 [N], numbers in EncodedPairs plus `first_pair`
// S and T are the longest of the batch, padded to the grid. Batch::samples is N; Batch::weight counts the
// targets, end included.
#pragma once

#include <array>
#include <memory>

#include "data/text/bucket_epochs.h"
#include "data/text/pair_corpus.h"

namespace tandem::datasets {

class PairSource final : public BucketSource {
 public:
  using Pairs = std::shared_ptr<const EncodedPairs>;

  // Special ids in `target_in` and `target`.
  struct Marks {
    std::int32_t begin = 0, end = 0;
  };

  // Buckets use the longer side of a pair; a target counts with its end. Throws UserError as order_buckets
  // does, and for an invalid division.
  PairSource(Pairs pairs, Marks marks, BucketOptions options, Device device = {}, Index first_pair = 0,
             const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;

  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  // Share of an epoch's undivided source and target fields that is no padding.
  double real_share(std::uint32_t epoch) const;

 private:
  // [S,T] of the samples of a batch.
  std::array<Index, 2> steps_of(std::span<const std::uint32_t> samples) const;

  Pairs pairs_;
  Marks marks_;
  Index first_pair_;
};

}  // namespace tandem::datasets
