#include "parallel/timeout_report.h"

#include <algorithm>

#include "core/units.h"

namespace tandem::parallel {

namespace {

constexpr std::int64_t kSilentMs = 1000;

constexpr const char* kWayOut =
    "The run can resume from its last checkpoint with any number of ranks; if a rank is only slow, a longer "
    "parallel.deadline_s helps";

// By rank; null for unreachable ranks.
std::vector<const RankStatus*> by_rank(std::span<const RankStatus> arrivals, int size) {
  std::vector<const RankStatus*> found(static_cast<std::size_t>(size), nullptr);
  for (const RankStatus& arrival : arrivals)
    if (arrival.rank >= 0 && arrival.rank < size) found[static_cast<std::size_t>(arrival.rank)] = &arrival;
  return found;
}

bool is_silent(const RankStatus* arrival, Call call) {
  if (!arrival || arrival->state == ProcessState::stopped || arrival->state == ProcessState::ended)
    return true;
  // Inside of MPI_Init and MPI_Finalize no rank records progress.
  return call != Call::start && call != Call::closing && arrival->silent_ms >= kSilentMs;
}

std::string what_it_does(const RankStatus& arrival) {
  if (arrival.state == ProcessState::stopped) return "stopped";
  if (arrival.state == ProcessState::ended) return "ended";
  const bool waits = arrival.oldest <= arrival.begun && arrival.silent_ms < kSilentMs;
  if (arrival.begun == 0) return "at the start";
  return fmt::format("{} {} {}", waits ? "waits in" : "last in", name_of(arrival.call), arrival.begun);
}

std::string described(int rank, const RankStatus* arrival, std::span<const std::string> hosts) {
  const auto index = static_cast<std::size_t>(rank);
  const std::string place = index < hosts.size() && !hosts[index].empty() ? " on " + hosts[index] : "";
  if (!arrival) return fmt::format("rank {} (no sign of it{})", rank, place);
  return fmt::format("rank {} (process {}{}, {})", rank, arrival->process, place, what_it_does(*arrival));
}

std::string listed(const std::vector<int>& ranks, std::span<const RankStatus* const> arrivals,
                   std::span<const std::string> hosts) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += described(ranks[i], arrivals[static_cast<std::size_t>(ranks[i])], hosts);
  }
  if (ranks.size() > kMost) text += fmt::format(" and {} others", ranks.size() - kMost);
  return text;
}

}  // namespace

std::vector<int> ranks_to_blame(std::span<const RankStatus> arrivals, const Waiting& waiting) {
  const std::vector<const RankStatus*> found = by_rank(arrivals, waiting.size);
  std::vector<int> silent, late;
  for (int rank = 0; rank < waiting.size; ++rank) {
    const RankStatus* const arrival = found[static_cast<std::size_t>(rank)];
    if (rank == waiting.rank || (arrival && arrival->oldest > waiting.number)) continue;
    if (is_silent(arrival, waiting.call)) silent.push_back(rank);
    if (!arrival || arrival->begun < waiting.number) late.push_back(rank);
  }
  return silent.empty() ? late : silent;
}

RankError absence(std::span<const RankStatus> arrivals, const Waiting& waiting,
                  std::span<const std::string> hosts) {
  const std::vector<int> ranks = ranks_to_blame(arrivals, waiting);
  const std::vector<const RankStatus*> found = by_rank(arrivals, waiting.size);
  const bool once = waiting.call == Call::start || waiting.call == Call::end || waiting.call == Call::closing;
  const std::string where =
      once ? std::string(name_of(waiting.call)) : fmt::format("{} {}", name_of(waiting.call), waiting.number);
  const std::string waited =
      fmt::format("rank {} waited for {}", waiting.rank, duration_text(waiting.waited_s));
  if (ranks.empty())
    return {
        where,
        waiting.call == Call::start
            ? fmt::format(
                  "all ranks are running, but Open MPI has not connected them: {}. Cores may be overloaded, "
                  "or hosts cannot reach each other. {}",
                  waited, kWayOut)
            : fmt::format(
                  "all ranks take part and make progress, but the call does not finish: {}. The connection "
                  "between hosts may be broken. {}",
                  waited, kWayOut),
        ranks};
  const bool came = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    const RankStatus* const arrival = found[static_cast<std::size_t>(rank)];
    return arrival && arrival->begun >= waiting.number;
  });
  return {where,
          fmt::format("{} did not {}: {}. {}", listed(ranks, found, hosts), came ? "go on" : "come", waited,
                      kWayOut),
          ranks};
}

}  // namespace tandem::parallel
