// Length buckets: batches of samples of varying length with little padding. A shuffled epoch is divided into
// shards of 80 batches; each is sorted by length and cut into batches, which are then shuffled. A pure
// function of (lengths, options, epoch).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

struct BucketOptions {
  // Exactly one is positive.
  Index sentences = 0;  // samples of a batch
  Index tokens = 0;     // largest padded length · samples of a batch; samples are a multiple of 8 from 8 on
  // False: samples come in the order of their length.
  bool shuffle = true;
  std::uint64_t seed = 0;
  Index grid = 8;    // padded lengths are multiples of it, so that there are few shapes
  Index shard = 80;  // batches
};

// The length rounded up to a multiple of `grid`, at least one.
Index padded_length(Index length, Index grid);

struct BucketOrder {
  struct Batch {
    Index first = 0, count = 0;  // in `order`
    Index length = 0;            // padded length of the longest
  };
  std::vector<std::uint32_t> order;  // each sample once
  std::vector<Batch> batches;
  double real_share = 0.0;  // lengths ÷ padded lengths

  std::span<const std::uint32_t> samples(Index batch) const;
};

// `lengths` by sample; for pairs, that of the longer side. Throws UserError unless exactly one of sentences
// and tokens is positive, on a grid or shard below 1, no samples, a negative length, and when a padded sample
// exceeds `tokens`.
BucketOrder order_buckets(std::span<const Index> lengths, const BucketOptions& options, std::uint32_t epoch);

// Largest number of samples of a batch in any epoch.
Index most_in_a_batch(std::span<const Index> lengths, const BucketOptions& options);
// Largest padded length · samples of a part, if the samples of a batch are divided evenly into `parts`.
Index most_padded(std::span<const Index> lengths, const BucketOptions& options, Index parts);

}  // namespace tandem::datasets
