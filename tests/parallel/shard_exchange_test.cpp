// Sums over the shards of a single process; tests/ranks covers several.
#include "parallel/shard_exchange.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"
#include "parallel/one_process.h"

using namespace tandem;
using namespace tandem::parallel;

namespace {

using Values = std::vector<float>;

std::unique_ptr<optim::ShardExchange> exchange(Communicator& ranks, int shards, bool reproducible) {
  return make_shard_exchange(ranks, {.shards = shards, .usual_samples = 4.0, .reproducible = reproducible});
}

Values sum_of(optim::ShardExchange& shards, const std::vector<Values>& values) {
  for (const Values& each : values) shards.add(each);
  Values total(values.front().size(), -1.0f);
  shards.sum(total);
  return total;
}

// Of which every order of additions gives another result: 2²⁴ + 1 is not a float.
const Values kLarge{16777216.0f}, kOne{1.0f};

}  // namespace

TEST_CASE("an exchange knows the shards of its process", "[exchange]") {
  OneProcess alone;
  for (const bool reproducible : {false, true}) {
    const auto shards = exchange(alone, 3, reproducible);
    CHECK(shards->shards() == 3);
    CHECK(shards->first() == 0);
    CHECK(shards->own() == 3);
    CHECK(shards->usual_samples() == 4.0);
    CHECK(shards->gather(std::vector<double>{1, 2, 3, 4, 5, 6}) == std::vector<double>{1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("fast sums go from shard to shard, reproducible ones along the tree", "[exchange]") {
  OneProcess alone;
  const std::vector<Values> values{kLarge, kOne, kOne, kOne};
  // ((2²⁴ + 1) + 1) + 1 stays 2²⁴; (2²⁴ + 1) + (1 + 1) does not.
  CHECK(sum_of(*exchange(alone, 4, false), values) == Values{16777216.0f});
  CHECK(sum_of(*exchange(alone, 4, true), values) == Values{16777218.0f});
}

TEST_CASE("an exchange is used again, for vectors of any length", "[exchange]") {
  OneProcess alone;
  for (const bool reproducible : {false, true}) {
    const auto shards = exchange(alone, 2, reproducible);
    CHECK(sum_of(*shards, {{1, 2, 3}, {10, 20, 30}}) == Values{11, 22, 33});
    CHECK(sum_of(*shards, {{5}, {7}}) == Values{12});
    CHECK(sum_of(*shards, {{2, 2, 2}, {1, 1, 1}}) == Values{3, 3, 3});
  }
}

TEST_CASE("gradients added before a dropped step are discarded", "[exchange]") {
  OneProcess alone;
  for (const bool reproducible : {false, true}) {
    const auto shards = exchange(alone, 2, reproducible);
    shards->drop();  // nothing was added
    shards->add(Values{100.0f});
    shards->drop();
    CHECK(sum_of(*shards, {{1}, {2}}) == Values{3});
  }
}

TEST_CASE("the only shard is added up where it lies", "[exchange]") {
  OneProcess alone;
  for (const bool reproducible : {false, true}) {
    const auto shards = exchange(alone, 1, reproducible);
    Values values{1, 2};
    shards->add(values);
    shards->sum(values);
    CHECK(values == Values{1, 2});
    CHECK(sum_of(*shards, {{3, 4}}) == Values{3, 4});
  }
}

TEST_CASE("a sum lacks no shard", "[exchange]") {
  OneProcess alone;
  for (const bool reproducible : {false, true}) {
    const auto shards = exchange(alone, 3, reproducible);
    shards->add(kOne);
    Values total(1);
    CHECK_THROWS_AS(shards->sum(total), Error);
  }
  CHECK_THROWS_AS(exchange(alone, 0, false), UserError);
}
