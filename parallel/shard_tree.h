// The fixed tree of the reproducible mode: S shards are added in one order, a function of S alone.
//
// A node of n > 1 shards is the sum of its first m and its other n - m, where m is the largest power of two
// below n:
//
//     7 shards:   ((0+1)+(2+3)) + ((4+5)+6)
//
// So shards that come one after the other need no more than ⌈log₂ S⌉ + 1 partial sums at a time, as the
// digits of a binary counter; a block of 2ᵏ shards that begins at a multiple of 2ᵏ is one node, so that with
// powers of two each rank has one partial sum. Whoever owns which shards: the same additions are made, each
// of them once, and addition of two numbers is the same everywhere.
#pragma once

#include <optional>
#include <vector>

namespace tandem::parallel {

// The sum of shards first … first + count - 1.
struct ShardNode {
  int first = 0, count = 0;

  bool operator==(const ShardNode&) const = default;
};

// How many shards the left child of a node of `count` > 1 shards has.
int left_count(int count);

// The node whose children are `left` and `right`, nodes of the tree of `shards` shards, if there is one.
std::optional<ShardNode> parent_of(int shards, ShardNode left, ShardNode right);

// The largest nodes of the tree that lie in first ≤ shard < last, in order: what the owner of these shards
// can add up by itself.
std::vector<ShardNode> largest_nodes(int shards, int first, int last);

}  // namespace tandem::parallel
