// Local decisions of a rank: division of batches, and compared settings. tests/program/ranks_test.cpp covers
// several ranks.
#include "train/process_group.h"

#include <array>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "train/rank_facts.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

config::ParallelConfig reproducible(std::optional<std::int64_t> shards = {}) {
  config::ParallelConfig config;
  config.reduction = "reproducible";
  config.shards = shards;
  return config;
}

// A process that takes itself for one of several, and never meets the others.
class OneOfMany final : public parallel::Communicator {
 public:
  OneOfMany(int rank, int size) : Communicator(rank, size) {}
  std::string description() const override { return "one of many"; }
  void abort(std::string_view, int) override { std::abort(); }

 private:
  using Counts = std::span<const std::size_t>;
  parallel::Pending do_start_all_reduce(parallel::Elements, parallel::Reduction) override { return {}; }
  void do_reduce_scatter(parallel::ConstElements, Counts, parallel::Elements, parallel::Reduction,
                         double) override {}
  void do_all_gather(parallel::ConstElements, Counts, parallel::Elements, double) override {}
  void do_all_to_all(parallel::ConstElements, Counts, parallel::Elements, Counts, double) override {}
  void do_broadcast(parallel::Elements, int, double) override {}
  std::vector<std::vector<std::byte>> do_gather_bytes(std::span<const std::byte>, double) override {
    return {};
  }
  void do_barrier(double) override {}
};

train::Json facts(const char* level, int seed) {
  return {{"host", "node"},
          {"cpu", "a CPU"},
          {"level", level},
          {"threads", 2},
          {"same", {{"level", level}, {"configuration", {{"seed", seed}, {"optimizer", {{"lr", 0.1}}}}}}}};
}

}  // namespace

TEST_CASE("a process that is alone has undivided batches", "[ranks]") {
  train::ProcessGroup ranks(nullptr, {}, 32);
  CHECK_FALSE(ranks.divided());
  CHECK(ranks.first());
  CHECK(ranks.text().empty());
  CHECK(ranks.exchange(32.0, Device{}) == nullptr);
  CHECK(ranks.any(true));
  CHECK(ranks.text_of_first([] { return std::string("x"); }) == "x");
}

TEST_CASE("shards are as many as ranks, or with the reproducible mode a number that ranks do not change",
          "[ranks]") {
  CHECK(train::ProcessGroup(nullptr, reproducible(), 128).shards() == 8);
  CHECK(train::ProcessGroup(nullptr, reproducible(), 7).shards() == 4);
  CHECK(train::ProcessGroup(nullptr, reproducible(), 1).shards() == 1);
  CHECK(train::ProcessGroup(nullptr, reproducible(6), 128).shards() == 6);
  CHECK(train::ProcessGroup(nullptr, reproducible(6), 128).text() == "6 shards added reproducibly");
  OneOfMany last(2, 3);
  const train::ProcessGroup fast(&last, {}, 128);
  CHECK(fast.shards() == 3);
  CHECK(fast.text() == "3 ranks");
  CHECK(fast.division() == datasets::ShardSpec{.parts = 3, .first = 2, .count = 1});
  const train::ProcessGroup uneven(&last, reproducible(7), 128);
  CHECK(uneven.division() == datasets::ShardSpec{.parts = 7, .first = 5, .count = 2});
  CHECK(uneven.text() == "3 ranks, 7 shards added reproducibly");
  CHECK_FALSE(uneven.first());
}

TEST_CASE("shards that no rank or no sample is there for are refused", "[ranks]") {
  OneOfMany last(2, 3);
  CHECK_THAT(user_error_of([&] { train::ProcessGroup(&last, reproducible(2), 128); }),
             Contains("parallel.shards: 2 for 3 ranks"));
  CHECK_THAT(user_error_of([&] { train::ProcessGroup(&last, {}, 2); }), Contains("start at most 2 ranks"));
  CHECK_THAT(user_error_of([] { train::ProcessGroup(nullptr, reproducible(9), 8); }),
             Contains("9 shards for a batch of 8 samples"));
}

TEST_CASE("batch norm joins ranks of one shard each", "[ranks]") {
  config::ParallelConfig config;
  config.sync_batch_norm = true;
  OneOfMany last(2, 3);
  train::ProcessGroup ranks(&last, config, 128);
  CHECK(ranks.syncs_batch_norm());
  CHECK(ranks.batch_norm_peers() != nullptr);
  CHECK(ranks.text() == "3 ranks, one batch norm");
  // By itself a process has the whole batch.
  train::ProcessGroup alone(nullptr, config, 128);
  CHECK_FALSE(alone.syncs_batch_norm());
  CHECK(alone.batch_norm_peers() == nullptr);
  const auto refused = [&](parallel::Communicator* ranks_of, std::optional<std::int64_t> shards,
                           const char* reduction) {
    config.shards = shards;
    config.reduction = reduction;
    return user_error_of([&] { train::ProcessGroup(ranks_of, config, 128); });
  };
  CHECK_THAT(refused(&last, 6, "fast"), Contains("not 6 shards on 3 ranks"));
  CHECK_THAT(refused(&last, 3, "reproducible"), Contains("3 shards (parallel.reduction: reproducible) on 3"));
  CHECK_THAT(refused(nullptr, {}, "reproducible"), Contains("on 1 rank,"));
}

TEST_CASE("ranks divide an update where that is asked for", "[ranks]") {
  config::ParallelConfig config;
  OneOfMany last(2, 3);
  CHECK(train::ProcessGroup(&last, config, 128).update_parts() == 1);
  config.shard_optimizer = true;
  CHECK(train::ProcessGroup(&last, config, 128).update_parts() == 3);
  CHECK(train::ProcessGroup(&last, config, 128).text() == "3 ranks, optimizer state divided");
  CHECK(train::ProcessGroup(nullptr, config, 128).update_parts() == 1);
}

TEST_CASE("the carried state of a batch is divided among its shards", "[ranks]") {
  tasks::CarriedState whole;
  whole.set("h", test::floats({0, 1, 2, 3, 4, 5, 6}, {1, 7, 1}));
  OneOfMany last(2, 3);
  const auto parts = train::ProcessGroup(&last, reproducible(4), 7).parts(whole);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].find("h").to_vector<float>() == std::vector<float>{6});
  train::ProcessGroup alone(nullptr, reproducible(4), 7);
  CHECK(alone.parts(whole).size() == 4);
  CHECK(alone.whole(alone.parts(whole)).find("h").to_vector<float>() ==
        std::vector<float>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("ranks that differ are told by what and which", "[ranks]") {
  CHECK_FALSE(train::difference(std::array{facts("v3", 1), facts("v3", 1)}));
  CHECK_THAT(*train::difference(std::array{facts("v3", 1), facts("v3", 1), facts("v3", 2)}),
             Contains("configuration.seed is 1 on rank 0 and 2 on rank 2"));
  CHECK_THAT(*train::difference(std::array{facts("v4", 1), facts("v3", 1)}),
             Contains("level is \"v4\" on rank 0 and \"v3\" on rank 1") && Contains("TANDEM_ISA"));
  train::Json more = facts("v3", 1);
  more["same"]["configuration"]["ema"] = 0.9;
  CHECK_THAT(*train::difference(std::array{facts("v3", 1), more}),
             Contains("configuration.ema is null on rank 0 and 0.9 on rank 1"));
  CHECK_THAT(*train::difference(std::array{more, facts("v3", 1)}),
             Contains("configuration.ema is 0.9 on rank 0 and null on rank 1"));
  // What ranks may differ in.
  train::Json slower = facts("v3", 1);
  slower["threads"] = 1;
  CHECK_FALSE(train::difference(std::array{facts("v3", 1), slower}));
  CHECK(train::text_of_rank(1, slower) == "rank 1: node, a CPU, level v3, 1 thread");
}
