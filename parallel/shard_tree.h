// Fixed tree of the reproducible mode: the order of adding S shards is a function of S only.
//
// A node of n > 1 shards is the sum of its first m and its other n - m, where m is the largest power of two
// below n:
//
//     7 shards:   ((0+1)+(2+3)) + ((4+5)+6)
//
// Consecutive shards need at most ⌈log₂ S⌉ + 1 partial sums at a time, like the digits of a binary counter. A
// block of 2ᵏ shards that begins at a multiple of 2ᵏ is one node, so with powers of two each rank has one
// partial sum. For any owners the same additions are made, each once, and an addition has the same result
// everywhere.
#pragma once

#include <optional>
#include <vector>

namespace tandem::parallel {

// The sum of shards first … first + count - 1.
struct ShardNode {
  int first = 0, count = 0;

  bool operator==(const ShardNode&) const = default;
};

// Number of shards in the left child of a node of `count` > 1 shards.
int left_count(int count);

// The node with the children `left` and `right`, nodes of the tree of `shards` shards, if it exists.
std::optional<ShardNode> parent_of(int shards, ShardNode left, ShardNode right);

// The largest nodes of the tree within first ≤ shard < last, in order: the sums that their owner can compute
// alone.
std::vector<ShardNode> largest_nodes(int shards, int first, int last);

}  // namespace tandem::parallel
