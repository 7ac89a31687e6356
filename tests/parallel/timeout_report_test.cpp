// The cause of a timeout, from the records that ranks leave.
#include "parallel/timeout_report.h"

#include <catch2/catch.hpp>

using namespace tandem;
using namespace tandem::parallel;
using Catch::Matchers::Contains;

namespace {

using Ranks = std::vector<int>;

constexpr std::int64_t kPolls = 2, kSilent = 30000;  // ms

RankStatus rank_at(int rank, std::uint64_t begun, std::uint64_t oldest, std::int64_t silent_ms) {
  return {.rank = rank,
          .process = 100 + rank,
          .begun = begun,
          .oldest = oldest,
          .silent_ms = silent_ms,
          .call = Call::all_reduce,
          .state = ProcessState::runs};
}

RankStatus waits_in(int rank, std::uint64_t number) { return rank_at(rank, number, number, kPolls); }
RankStatus computes_after(int rank, std::uint64_t number) {
  return rank_at(rank, number, number + 1, kSilent);
}
RankStatus stopped(RankStatus arrival) {
  arrival.state = ProcessState::stopped;
  return arrival;
}

Waiting in(std::uint64_t number, int size) {
  return {.rank = 0, .size = size, .call = Call::all_reduce, .number = number, .waited_s = 60};
}

Ranks blamed(const std::vector<RankStatus>& arrivals, int size) {
  return ranks_to_blame(arrivals, in(7, size));
}

}  // namespace

TEST_CASE("the rank that has not come is to blame", "[parallel]") {
  CHECK(blamed({waits_in(0, 7), computes_after(1, 6)}, 2) == Ranks{1});
  CHECK(blamed({waits_in(0, 7), waits_in(1, 7), computes_after(2, 6)}, 3) == Ranks{2});
  CHECK(blamed({waits_in(0, 7), computes_after(1, 5), computes_after(2, 6)}, 3) == Ranks{1, 2});
}

TEST_CASE("one that waits elsewhere is not, unless all do", "[parallel]") {
  // Rank 1 waits for rank 2 in an earlier call that rank 0 has ended.
  CHECK(blamed({waits_in(0, 7), waits_in(1, 6), computes_after(2, 5)}, 3) == Ranks{2});
  // They make different calls.
  CHECK(blamed({waits_in(0, 7), waits_in(1, 6)}, 2) == Ranks{1});
}

TEST_CASE("nor one that has ended the call", "[parallel]") {
  CHECK(blamed({waits_in(0, 7), computes_after(1, 7), waits_in(2, 7), stopped(waits_in(3, 7))}, 4) ==
        Ranks{3});
  CHECK(blamed({waits_in(0, 7), computes_after(1, 7)}, 2).empty());
}

TEST_CASE("one that came and does not go on is", "[parallel]") {
  CHECK(blamed({waits_in(0, 7), rank_at(1, 7, 7, kSilent), waits_in(2, 7)}, 3) == Ranks{1});
  CHECK(blamed({waits_in(0, 7), stopped(waits_in(1, 7)), waits_in(2, 7)}, 3) == Ranks{1});
  // It has begun the next one without looking after this one.
  CHECK(blamed({waits_in(0, 7), rank_at(1, 8, 7, kSilent)}, 2) == Ranks{1});
}

TEST_CASE("ranks that were neither seen nor heard are", "[parallel]") {
  CHECK(blamed({waits_in(0, 7), waits_in(2, 7)}, 3) == Ranks{1});
  CHECK(blamed({}, 2) == Ranks{1});
}

TEST_CASE("nobody is when all are there", "[parallel]") {
  CHECK(blamed({waits_in(0, 7), waits_in(1, 7)}, 2).empty());
  const std::vector<RankStatus> arrivals{waits_in(0, 7), waits_in(1, 7)};
  CHECK_THAT(absence(arrivals, in(7, 2), {}).what(), Contains("all ranks take part"));
}

TEST_CASE("at the start nobody looks, and nobody is blamed for it", "[parallel]") {
  const std::vector<RankStatus> arrivals{rank_at(0, 1, 1, kSilent), rank_at(1, 1, 1, kSilent)};
  const Waiting waiting{.rank = 0, .size = 3, .call = Call::start, .number = 1, .waited_s = 5};
  CHECK(ranks_to_blame(arrivals, waiting) == Ranks{2});
  CHECK_THAT(absence(arrivals, waiting, {}).what(),
             Contains("[the start] rank 2 (no sign of it) did not come: rank 0 waited for 5.0 s"));
}

TEST_CASE("the message names rank, process, host, state, the time, and the way out", "[parallel]") {
  const std::vector<std::string> hosts{"a", "b", "b"};
  const RankError error =
      absence(std::vector{waits_in(0, 7), stopped(computes_after(1, 6)), waits_in(2, 7)}, in(7, 3), hosts);
  CHECK(error.ranks() == Ranks{1});
  CHECK(std::string(error.what()) ==
        "[all_reduce 7] rank 1 (process 101 on b, stopped) did not come: rank 0 waited for 1:00. The run "
        "can resume from its last checkpoint with any number of ranks; if a rank is only slow, a longer "
        "parallel.deadline_s helps");
  const RankError both = absence(std::vector{waits_in(0, 7), computes_after(1, 6)}, in(7, 3), hosts);
  CHECK_THAT(both.what(),
             Contains("rank 1 (process 101 on b, last in all_reduce 6) and rank 2 (no sign of it on b) "
                      "did not come"));
  const RankError inside = absence(std::vector{waits_in(0, 7), rank_at(1, 7, 7, kSilent)}, in(7, 2), {});
  CHECK_THAT(inside.what(), Contains("rank 1 (process 101, last in all_reduce 7) did not go on"));
  CHECK_THAT(absence({}, in(7, 9), {}).what(), Contains("and 4 others did not come"));
}
