// Batches of samples of varying length with little padding: a shuffled epoch is divided into shards of 80
// batches, these are sorted by length and cut, and the batches are shuffled. A pure function of (lengths,
// options, epoch).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

struct BucketOptions {
  // One of the two is given.
  Index sentences = 0;  // samples of a batch
  Index tokens = 0;     // padded length · samples of a batch, at most; samples are a multiple of 8 from 8 on
  // Otherwise the samples come in the order of their length.
  bool shuffle = true;
  std::uint64_t seed = 0;
  Index grid = 8;    // padded lengths are multiples of it, so that there are few shapes
  Index shard = 80;  // batches
};

// A multiple of `grid`, at least one.
Index padded_length(Index length, Index grid);

struct BucketOrder {
  struct Batch {
    Index first = 0, count = 0;  // in `order`
    Index length = 0;            // padded, of the longest
  };
  std::vector<std::uint32_t> order;  // every sample once
  std::vector<Batch> batches;
  double real_share = 0.0;  // lengths ÷ padded lengths

  std::span<const std::uint32_t> samples(Index batch) const;
};

// `lengths` by sample; of pairs the longer one's. Throws UserError on options of which not exactly one is
// positive, a grid or shard below 1, no samples, a negative length, and where one sample, padded, has more
// than `tokens`.
BucketOrder order_buckets(std::span<const Index> lengths, const BucketOptions& options, std::uint32_t epoch);

// Of any plan of these lengths: the most samples of a batch.
Index most_in_a_batch(std::span<const Index> lengths, const BucketOptions& options);
// Padded length · samples of a part, at most, where batches are divided by their samples into `parts`, as
// evenly as can be.
Index most_padded(std::span<const Index> lengths, const BucketOptions& options, Index parts);

}  // namespace tandem::datasets
