// Sum of shards in the fixed tree (parallel/shard_tree.h), with the same bits for any number of processes.
//
// Ranks own shards in blocks, part_of_rank(shards, size, rank). A rank adds its shards to a ShardSum in
// order, which keeps the sums of whole nodes. The remaining nodes across ranks are added at the end: each
// rank receives one part of the elements of all ranks' nodes, adds it, and receives the sums of the other
// parts. If ranks have equal, power-of-two numbers of shards, the traffic is that of an ordinary all-reduce.
//
// Element types: float and double.
#pragma once

#include <span>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/partition.h"
#include "parallel/shard_tree.h"

namespace tandem::parallel {

// Partial sums of one owner: at most ⌈log₂ shards⌉ + 1 vectors of `length` elements for an aligned block,
// twice as many for any block.
template <class T>
class ShardSum {
 public:
  // For shards first ≤ shard < last of `shards`.
  ShardSum(int shards, Range block, std::size_t length);

  // Adds the next shard of the block. Throws UserError when there is none, or for another length.
  void add(std::span<const T> shard);

  // Whether every shard of the block was added.
  bool complete() const { return next_ == last_; }
  int shards() const { return shards_; }
  Range block() const { return block_; }
  std::size_t length() const { return length_; }
  // The largest nodes of the block, once complete.
  const std::vector<ShardNode>& nodes() const { return nodes_; }
  const std::vector<std::vector<T>>& sums() const { return sums_; }

  // Removes the shards, and keeps the memory.
  void clear();

 private:
  int shards_;
  Range block_;
  std::size_t length_;
  int next_, last_;
  std::vector<ShardNode> nodes_;
  std::vector<std::vector<T>> sums_;
  std::vector<std::vector<T>> spare_;  // reused memory
};

// All-reduce of all shards of all ranks. `sum.block()` is part_of_rank(shards, size, rank). Elements are sent
// in pieces, so that extra memory is `piece` elements per node. Throws UserError when shards are missing, and
// as a communicator does.
template <class T>
void all_reduce_shards(Communicator& ranks, const ShardSum<T>& sum, std::span<T> result, double deadline_s,
                       std::size_t piece = std::size_t{1} << 22);

// Reduce-scatter: counts[r] elements, in order, belong to rank r, and `own` receives the sum of this rank's
// part.
template <class T>
void reduce_scatter_shards(Communicator& ranks, const ShardSum<T>& sum, std::span<const std::size_t> counts,
                           std::span<T> own, double deadline_s, std::size_t piece = std::size_t{1} << 22);

}  // namespace tandem::parallel
