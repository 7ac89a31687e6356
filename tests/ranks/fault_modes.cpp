// Ranks that reduce until a fault in one of them.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/ranks/checking.h"

namespace tandem::test {

namespace {

using namespace tandem::parallel;

void happen(Communicator& ranks, const Arguments& arguments) {
  const std::string& mode = arguments.mode;
  if (mode == "late") {
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.deadline_s + 30));
  } else if (mode == "slow") {
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.deadline_s / 2));
  } else if (mode == "stop") {
    std::raise(SIGSTOP);
  } else if (mode == "kill") {
    std::raise(SIGKILL);
  } else if (mode == "throw") {
    throw std::runtime_error("the data set has gone");
  } else if (mode == "leave") {
    std::_Exit(0);
  } else if (mode == "abort") {
    ranks.abort("that is enough", 9);
  } else if (mode == "stop_inside" || mode == "kill_inside") {
    // A sum that others go on with until they want more of this rank.
    std::vector<float> data(4 << 20);
    Pending pending = ranks.start_all_reduce(data, Reduction::sum);
    std::raise(mode == "stop_inside" ? SIGSTOP : SIGKILL);
  } else if (mode == "drop") {
    std::vector<float> data(1000);
    ranks.start_all_reduce(data, Reduction::sum);
  }
}

}  // namespace

void meet_a_fault(Communicator& ranks, const Arguments& arguments) {
  constexpr int kBefore = 20;
  // "run": something happens from outside.
  const int rounds = arguments.mode == "run" ? 1 << 30 : 2 * kBefore;
  std::vector<float> data(5000), bucket(20000);
  for (int round = 0; round < rounds; ++round) {
    if (round == kBefore && ranks.rank() == arguments.rank) happen(ranks, arguments);
    if (round == kBefore && arguments.mode.ends_with("_inside")) {
      std::vector<float> large(4 << 20);
      ranks.all_reduce(large, Reduction::sum, arguments.deadline_s);
    }
    Pending pending = ranks.start_all_reduce(bucket, Reduction::max);
    ranks.all_reduce(data, Reduction::sum, arguments.deadline_s);
    ranks.broadcast(data, round % ranks.size(), arguments.deadline_s);
    pending.wait(arguments.deadline_s);
    ranks.gather_bytes(std::as_bytes(std::span(data)), arguments.deadline_s);
    if (round == 1 && ranks.rank() == 0) {
      std::puts("reducing");
      std::fflush(stdout);
    }
  }
}

}  // namespace tandem::test
