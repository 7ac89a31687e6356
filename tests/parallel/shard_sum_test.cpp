// Sums of shards by one process have the bits of the tree, and need few partial sums.
#include "parallel/shard_sum.h"

#include <bit>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "parallel/one_process.h"
#include "tests/ranks/shards.h"

using namespace tandem;
using namespace tandem::parallel;

namespace {

template <class T>
std::vector<T> sum_of(int shards, std::size_t length) {
  const auto count = static_cast<std::size_t>(shards);
  ShardSum<T> sum(shards, {0, count}, length);
  for (int shard = 0; shard < shards; ++shard) {
    sum.add(test::shard_values<T>(shard, length));
    const auto arrived = static_cast<unsigned>(shard + 1);
    CHECK(sum.nodes().size() <= static_cast<std::size_t>(std::bit_width(arrived)));
  }
  CHECK(sum.complete());
  OneProcess alone;
  std::vector<T> result(length);
  all_reduce_shards<T>(alone, sum, result, 1.0);
  return result;
}

}  // namespace

TEST_CASE("one process sums in the tree", "[parallel]") {
  for (const std::size_t length : {0u, 1u, 37u}) {
    for (int shards = 1; shards <= 20; ++shards) {
      CHECK(test::same_bits(sum_of<float>(shards, length), test::tree_sum<float>(0, shards, length)));
      CHECK(test::same_bits(sum_of<double>(shards, length), test::tree_sum<double>(0, shards, length)));
    }
  }
}

TEST_CASE("the order of the sums can be told by their bits", "[parallel]") {
  // Control: values for which a sum from left to right is another one.
  constexpr std::size_t kLength = 100;
  std::vector<float> in_a_row = test::shard_values<float>(0, kLength);
  for (int shard = 1; shard < 8; ++shard) {
    const std::vector<float> values = test::shard_values<float>(shard, kLength);
    for (std::size_t i = 0; i < kLength; ++i) in_a_row[i] += values[i];
  }
  CHECK_FALSE(test::same_bits(in_a_row, test::tree_sum<float>(0, 8, kLength)));
}

TEST_CASE("a sum of shards is used again, and refuses what does not fit", "[parallel]") {
  ShardSum<float> sum(2, {0, 2}, 3);
  OneProcess alone;
  std::vector<float> result(3), other(2);
  CHECK_THROWS_AS(all_reduce_shards<float>(alone, sum, result, 1.0), UserError);  // nothing has come
  CHECK_THROWS_AS(sum.add(other), UserError);
  for (int round = 0; round < 2; ++round) {
    sum.add(std::vector<float>{1, 2, 3});
    sum.add(std::vector<float>{10, 20, 30});
    all_reduce_shards<float>(alone, sum, result, 1.0);
    CHECK(result == std::vector<float>{11, 22, 33});
    CHECK_THROWS_AS(sum.add(result), UserError);  // a third
    sum.clear();
  }
  CHECK_THROWS_AS(all_reduce_shards<float>(alone, sum, other, 1.0), UserError);
  CHECK_THROWS_AS(ShardSum<float>(2, {0, 3}, 1), UserError);
  ShardSum<float> half(2, {0, 1}, 3);  // of another number of ranks
  half.add(result);
  CHECK_THROWS_AS(all_reduce_shards<float>(alone, half, result, 1.0), UserError);
}
