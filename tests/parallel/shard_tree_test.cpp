// The fixed tree over shards: its shape, and the nodes that a block of shards holds.
#include "parallel/shard_tree.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"
#include "parallel/partition.h"

using namespace tandem;
using namespace tandem::parallel;

namespace {

// "((0+1)+2)": the tree as it is defined.
std::string written(int first, int count) {
  if (count == 1) return std::to_string(first);
  int left = 1;
  while (left * 2 < count) left *= 2;
  return "(" + written(first, left) + "+" + written(first + left, count - left) + ")";
}

// The same, put together by parent_of as shards arrive.
std::string arrived(int shards, int first, int last) {
  struct Part {
    ShardNode node;
    std::string text;
  };
  std::vector<Part> parts;
  for (int shard = first; shard < last; ++shard) {
    Part part{{shard, 1}, std::to_string(shard)};
    while (!parts.empty()) {
      const auto parent = parent_of(shards, parts.back().node, part.node);
      if (!parent) break;
      part = {*parent, "(" + parts.back().text + "+" + part.text + ")"};
      parts.pop_back();
    }
    parts.push_back(part);
  }
  std::string text;
  for (const Part& part : parts) text += (text.empty() ? "" : " ") + part.text;
  return text;
}

using Nodes = std::vector<ShardNode>;

}  // namespace

TEST_CASE("a node's left child is the largest power of two below it", "[parallel]") {
  const int lefts[] = {1, 2, 2, 4, 4, 4, 4, 8, 8};  // of 2, 3, …
  for (int count = 2; count < 11; ++count) CHECK(left_count(count) == lefts[count - 2]);
  CHECK_THROWS_AS(left_count(1), InternalError);
}

TEST_CASE("shards that arrive in order make the tree", "[parallel]") {
  CHECK(arrived(1, 0, 1) == "0");
  CHECK(arrived(2, 0, 2) == "(0+1)");
  CHECK(arrived(3, 0, 3) == "((0+1)+2)");
  CHECK(arrived(4, 0, 4) == "((0+1)+(2+3))");
  CHECK(arrived(7, 0, 7) == "(((0+1)+(2+3))+((4+5)+6))");
  for (int shards = 1; shards <= 70; ++shards) CHECK(arrived(shards, 0, shards) == written(0, shards));
}

TEST_CASE("a parent joins children of one node", "[parallel]") {
  CHECK(parent_of(8, {0, 2}, {2, 2}) == ShardNode{0, 4});
  CHECK(parent_of(7, {4, 2}, {6, 1}) == ShardNode{4, 3});
  CHECK(parent_of(7, {0, 4}, {4, 3}) == ShardNode{0, 7});
  CHECK_FALSE(parent_of(8, {2, 2}, {4, 2}));  // cousins
  CHECK_FALSE(parent_of(8, {1, 1}, {2, 1}));
  CHECK_FALSE(parent_of(8, {0, 2}, {4, 2}));  // apart
  CHECK_FALSE(parent_of(8, {0, 1}, {1, 3}));  // no nodes
  CHECK_FALSE(parent_of(6, {4, 2}, {6, 2}));  // beyond the last
}

TEST_CASE("the largest nodes of a block", "[parallel]") {
  CHECK(largest_nodes(8, 0, 8) == Nodes{{0, 8}});
  CHECK(largest_nodes(8, 0, 4) == Nodes{{0, 4}});
  CHECK(largest_nodes(8, 4, 8) == Nodes{{4, 4}});
  CHECK(largest_nodes(8, 2, 4) == Nodes{{2, 2}});
  CHECK(largest_nodes(8, 3, 3).empty());
  CHECK(largest_nodes(8, 1, 7) == Nodes{{1, 1}, {2, 2}, {4, 2}, {6, 1}});
  CHECK(largest_nodes(7, 4, 7) == Nodes{{4, 3}});
  CHECK(largest_nodes(6, 0, 3) == Nodes{{0, 2}, {2, 1}});
  CHECK(largest_nodes(6, 3, 6) == Nodes{{3, 1}, {4, 2}});
  CHECK(largest_nodes(1, 0, 1) == Nodes{{0, 1}});
}

TEST_CASE("a block sums arriving shards into its largest nodes", "[parallel]") {
  for (int shards = 1; shards <= 33; ++shards)
    for (int first = 0; first <= shards; ++first)
      for (int last = first; last <= shards; ++last) {
        std::string text;
        for (const ShardNode node : largest_nodes(shards, first, last))
          text += (text.empty() ? "" : " ") + written(node.first, node.count);
        if (arrived(shards, first, last) != text)
          FAIL(shards << ": " << first << " to " << last << ": " << arrived(shards, first, last));
      }
}

TEST_CASE("ranks own blocks that differ by one at most, and have one node each where powers of two allow",
          "[parallel]") {
  CHECK(counts_of_ranks(10, 4) == std::vector<std::size_t>{3, 3, 2, 2});
  CHECK(counts_of_ranks(2, 3) == std::vector<std::size_t>{1, 1, 0});
  CHECK(counts_of_ranks(0, 2) == std::vector<std::size_t>{0, 0});
  for (std::size_t count = 0; count < 40; ++count)
    for (int ranks = 1; ranks < 10; ++ranks) {
      std::size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range part = part_of_rank(count, ranks, rank);
        CHECK(part.first == next);
        CHECK(part.count() - count / static_cast<std::size_t>(ranks) <= 1);
        next = part.last;
      }
      CHECK(next == count);
    }
  for (int ranks = 1; ranks <= 16; ranks *= 2)
    for (int rank = 0; rank < ranks; ++rank) {
      const Range block = part_of_rank(16, ranks, rank);
      CHECK(largest_nodes(16, static_cast<int>(block.first), static_cast<int>(block.last)).size() == 1);
    }
}
