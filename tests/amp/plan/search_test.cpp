// The bisecting search against oracles that know the harmful ops.
#include "amp/plan/search.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

using Ops = std::vector<int>;

Ops up_to(int count) {
  Ops ops(static_cast<std::size_t>(count));
  std::iota(ops.begin(), ops.end(), 0);
  return ops;
}

// Some ops spoil the result by themselves; others only on fresh batches.
class Planted : public Oracle {
 public:
  explicit Planted(std::set<int> bad, std::set<int> hidden = {})
      : bad_(std::move(bad)), hidden_(std::move(hidden)) {}

  bool within(std::span<const int> low) override {
    ++runs;
    tried.emplace_back(low.begin(), low.end());
    return std::ranges::none_of(low, [&](int op) { return bad_.contains(op); });
  }
  bool verified(std::span<const int> low) override {
    return std::ranges::none_of(low, [&](int op) { return bad_.contains(op) || hidden_.contains(op); });
  }
  std::vector<double> shares(std::span<const int> low) override {
    std::vector<double> shares;
    for (const int op : low) shares.push_back(hidden_.contains(op) ? 0.4 : 0.1);
    return shares;
  }

  int runs = 0;
  std::vector<Ops> tried;

 private:
  std::set<int> bad_, hidden_;
};

void check_found(int count, const std::set<int>& bad) {
  Planted oracle(bad);
  const Ops ops = up_to(count);
  const Search found = search(ops, oracle);
  REQUIRE(found.bad == Ops(bad.begin(), bad.end()));
  REQUIRE(found.dropped.empty());
  REQUIRE(found.good.size() + found.bad.size() == ops.size());
  REQUIRE(std::ranges::is_sorted(found.good));
  REQUIRE(found.trials.size() == static_cast<std::size_t>(oracle.runs));
}

double mean_runs(int count, int spoiling) {
  Dice dice(12);
  const int trials = 200;
  int runs = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::set<int> bad;
    while (static_cast<int>(bad.size()) < spoiling) bad.insert(dice.below(count));
    Planted oracle(bad);
    search(up_to(count), oracle);
    runs += oracle.runs;
  }
  return static_cast<double>(runs) / trials;
}

}  // namespace

TEST_CASE("the search runs as written down", "[plan][search]") {
  Planted oracle({3, 6});
  const Ops ops = {1, 2, 3, 4, 5, 6, 7, 8};
  const Search found = search(ops, oracle);
  CHECK(found.trials == std::vector<Trial>{{0, 8, false},
                                           {0, 4, false},
                                           {4, 4, false},
                                           {0, 2, true},
                                           {2, 2, false},
                                           {4, 2, false},
                                           {6, 2, true},
                                           {2, 1, false},
                                           {3, 1, true},
                                           {4, 1, true},
                                           {5, 1, false}});
  CHECK(found.good == Ops{1, 2, 4, 5, 7, 8});
  CHECK(found.bad == Ops{3, 6});
  CHECK(found.verifications == 1);
  // What was found good runs beside what is tried, in order.
  CHECK(oracle.tried[4] == Ops{1, 2, 3, 4});
  CHECK(oracle.tried[9] == Ops{1, 2, 4, 5, 7, 8});
  CHECK(oracle.tried[6] == Ops{1, 2, 7, 8});
}

TEST_CASE("every planted set of up to four ops is found", "[plan][search]") {
  for (int count = 0; count <= 9; ++count)
    for (int bits = 0; bits < 1 << count; ++bits) {
      if (__builtin_popcount(static_cast<unsigned>(bits)) > 4) continue;
      std::set<int> bad;
      for (int op = 0; op < count; ++op)
        if ((bits >> op) & 1) bad.insert(op);
      check_found(count, bad);
    }
  Dice dice(13);
  for (int trial = 0; trial < 300; ++trial) {
    const int count = 20 + dice.below(500);
    std::set<int> bad;
    for (int n = trial % 5; n > 0; --n) bad.insert(dice.below(count));
    check_found(count, bad);
  }
}

TEST_CASE("the search takes about 2k log2(n/k) runs", "[plan][search]") {
  CHECK(mean_runs(64, 2) == Approx(21).margin(2));
  CHECK(mean_runs(256, 2) == Approx(29).margin(2));
  CHECK(mean_runs(256, 8) == Approx(84).margin(4));
  CHECK(mean_runs(1024, 4) == Approx(66).margin(4));
}

TEST_CASE("the smaller half of an odd number comes first", "[plan][search]") {
  Planted oracle({2});
  const Search found = search(up_to(3), oracle);
  CHECK(found.trials ==
        std::vector<Trial>{{0, 3, false}, {1, 2, false}, {0, 1, true}, {1, 1, true}, {2, 1, false}});
}

TEST_CASE("ops that fail on fresh batches are raised, the greatest share first", "[plan][search]") {
  Planted oracle({0}, {2, 5});
  const Search found = search(up_to(7), oracle);
  CHECK(found.bad == Ops{0});
  CHECK(found.dropped == Ops{2, 5});
  CHECK(found.good == Ops{1, 3, 4, 6});
  CHECK(found.verifications == 3);
}

TEST_CASE("unverifiable plans end in f32", "[plan][search]") {
  // Pairs that are harmless alone: the error of a set is no sum, and halves say nothing of the whole.
  class Pairs : public Planted {
   public:
    Pairs() : Planted({}) {}
    bool within(std::span<const int> low) override { return low.size() % 2 == 0; }
    bool verified(std::span<const int>) override { return false; }
  } pairs;
  const Search found = search(up_to(6), pairs);
  CHECK(found.good.empty());
  CHECK(found.dropped.size() + found.bad.size() == 6);
  CHECK(found.dropped == Ops{0, 1, 2, 3, 4, 5});  // equal shares: in order
}

TEST_CASE("an empty search needs no run", "[plan][search]") {
  Planted oracle({});
  const Search found = search({}, oracle);
  CHECK(found.trials.empty());
  CHECK(found.verifications == 0);
  Planted all({0, 1});
  CHECK(search(up_to(2), all).verifications == 0);  // all of f32 is what f32 is compared with
}

TEST_CASE("a share that is unknown is the greatest", "[plan][search]") {
  class Unknown : public Planted {
   public:
    Unknown() : Planted({}, {4}) {}
    std::vector<double> shares(std::span<const int> low) override {
      std::vector<double> shares(low.size(), 0.9);
      for (std::size_t i = 0; i < low.size(); ++i)
        if (low[i] == 4) shares[i] = std::numeric_limits<double>::quiet_NaN();
      return shares;
    }
  } unknown;
  CHECK(search(up_to(6), unknown).dropped == Ops{4});
  class Few : public Planted {
   public:
    Few() : Planted({}, {4}) {}
    std::vector<double> shares(std::span<const int>) override { return {1.0}; }
  } few;
  CHECK_FAILS(InternalError, search(up_to(6), few), "1 error shares for 6 ops");
}

TEST_CASE("shares of an error", "[plan][search]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(share_of_error(5.0, 3.0) == Approx(16.0 / 25));
  CHECK(share_of_error(5.0, 5.0) == 0.0);
  CHECK(share_of_error(5.0, 0.0) == 1.0);
  CHECK(share_of_error(3.0, 5.0) == Approx(-16.0 / 9));
  CHECK(share_of_error(0.0, 0.0) == 0.0);
  CHECK(share_of_error(inf, 3.0) == 1.0);
  CHECK(share_of_error(nan, 3.0) == 1.0);
  CHECK(share_of_error(inf, inf) == 0.0);
  CHECK(share_of_error(nan, nan) == 0.0);
  CHECK(share_of_error(3.0, nan) == -inf);
  CHECK(share_of_error(1e200, 1e199) == Approx(0.99));  // no square overflows
  // Independent errors add up as squares: the shares of 3 and 4 in 5.
  CHECK(share_of_error(5.0, 4.0) + share_of_error(5.0, 3.0) == Approx(1.0));
}
