// The sum of shards in the fixed tree (parallel/shard_tree.h), by one process or many, with the same bits.
//
// Ranks own shards in blocks, part_of_rank(shards, size, rank). A rank gives its shards to a ShardSum as they
// come, which keeps the sums of whole nodes; the nodes that lie across ranks are added once all have come:
// each rank adds one part of the elements, the nodes of all ranks for it having been sent to it, and gets
// the parts of the others. With as many shards a rank, and a power of two of them, that is the traffic of an
// ordinary all-reduce.
//
// Element types: float and double.
#pragma once

#include <span>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/partition.h"
#include "parallel/shard_tree.h"

namespace tandem::parallel {

// The partial sums of one owner. Vectors of `length` elements, at most ⌈log₂ shards⌉ + 1 at a time for an
// aligned block, twice as many for any.
template <class T>
class ShardSum {
 public:
  // For shards first ≤ shard < last of `shards`.
  ShardSum(int shards, Range block, std::size_t length);

  // The next shard of the block. Throws UserError when there is none, or when its length is another.
  void add(std::span<const T> shard);

  // Whether every shard of the block has come.
  bool complete() const { return next_ == last_; }
  int shards() const { return shards_; }
  Range block() const { return block_; }
  std::size_t length() const { return length_; }
  // What is there: the largest nodes of the block, once it is complete.
  const std::vector<ShardNode>& nodes() const { return nodes_; }
  const std::vector<std::vector<T>>& sums() const { return sums_; }

  // Forgets the shards, and keeps the memory.
  void clear();

 private:
  int shards_;
  Range block_;
  std::size_t length_;
  int next_, last_;
  std::vector<ShardNode> nodes_;
  std::vector<std::vector<T>> sums_;
  std::vector<std::vector<T>> spare_;  // memory of sums that were added to others
};

// The sum of all shards of all ranks on every rank. `sum.block()` is part_of_rank(shards, size, rank).
// Elements are sent in pieces, so that what is needed besides is `piece` elements for each node at a time.
// Throws UserError when shards are missing, and what a communicator throws.
template <class T>
void all_reduce_shards(Communicator& ranks, const ShardSum<T>& sum, std::span<T> result, double deadline_s,
                       std::size_t piece = std::size_t{1} << 22);

// The same for the part of this rank alone: counts[r] elements, in order, are rank r's, and `own` gets the
// sum of its own.
template <class T>
void reduce_scatter_shards(Communicator& ranks, const ShardSum<T>& sum, std::span<const std::size_t> counts,
                           std::span<T> own, double deadline_s, std::size_t piece = std::size_t{1} << 22);

}  // namespace tandem::parallel
