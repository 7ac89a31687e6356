#include "parallel/shard_tree.h"

#include <bit>

#include "core/error.h"

namespace tandem::parallel {

namespace {

void add_largest_nodes(ShardNode node, int first, int last, std::vector<ShardNode>& nodes) {
  const int end = node.first + node.count;
  if (end <= first || node.first >= last) return;
  if (first <= node.first && end <= last) {
    nodes.push_back(node);
    return;
  }
  const int left = left_count(node.count);
  add_largest_nodes({node.first, left}, first, last, nodes);
  add_largest_nodes({node.first + left, node.count - left}, first, last, nodes);
}

}  // namespace

int left_count(int count) {
  ensure(count > 1, "shard_tree", "a node of {} shards has no children", count);
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
}

std::optional<ShardNode> parent_of(int shards, ShardNode left, ShardNode right) {
  const ShardNode wanted{left.first, left.count + right.count};
  if (left.first + left.count != right.first) return std::nullopt;
  ShardNode node{0, shards};
  while (node.count > wanted.count) {
    const int half = left_count(node.count);
    if (wanted.first >= node.first + half) {
      node = {node.first + half, node.count - half};
    } else {
      node.count = half;
    }
  }
  if (node != wanted || left_count(node.count) != left.count) return std::nullopt;
  return node;
}

std::vector<ShardNode> largest_nodes(int shards, int first, int last) {
  std::vector<ShardNode> nodes;
  if (shards > 0) add_largest_nodes({0, shards}, first, last, nodes);
  return nodes;
}

}  // namespace tandem::parallel
