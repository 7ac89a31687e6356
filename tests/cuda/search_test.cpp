// Concurrent construction of candidates.
#include "core/cuda/search.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

using namespace std::chrono_literals;
using tandem::cuda::built_at_once;

namespace {

std::vector<std::int64_t> numbers(std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<std::int64_t> values(const std::vector<std::unique_ptr<std::int64_t>>& all) {
  std::vector<std::int64_t> values;
  for (const auto& each : all) values.push_back(*each);
  return values;
}

}  // namespace

TEST_CASE("candidates are built on several threads, and come in the order asked for", "[search]") {
  std::mutex mutex;
  std::condition_variable came;
  int together = 0;
  std::set<int> threads;
  // Each waits for another one that is being built.
  const auto built = built_at_once<std::int64_t>(
      std::vector<std::int64_t>{7, 3, 5, 1}, 12, 10s, 2, [&](std::int64_t number, int thread) {
        std::unique_lock lock(mutex);
        threads.insert(thread);
        const int round = together++ / 2;
        came.notify_all();
        CHECK(came.wait_for(lock, 5s, [&] { return together >= 2 * round + 2; }));
        return std::make_unique<std::int64_t>(number);
      });
  CHECK(values(built) == std::vector<std::int64_t>{7, 3, 5, 1});
  CHECK(threads == std::set<int>{0, 1});
}

TEST_CASE("failed candidates are left out, and a limit ends the search", "[search]") {
  int asked = 0;
  const auto built = built_at_once<std::int64_t>(numbers(20), 3, 10s, 1, [&](std::int64_t number, int) {
    ++asked;
    if (number == 1) throw std::runtime_error("no such engine");
    return number == 0 ? nullptr : std::make_unique<std::int64_t>(number);
  });
  CHECK(values(built) == std::vector<std::int64_t>{2, 3, 4});
  CHECK(asked == 5);
}

TEST_CASE("no candidate begins after the time limit, and begun ones are awaited", "[search]") {
  const auto built = built_at_once<std::int64_t>(numbers(5), 12, 50ms, 1, [&](std::int64_t number, int) {
    if (number == 2) std::this_thread::sleep_for(100ms);
    return std::make_unique<std::int64_t>(number);
  });
  CHECK(values(built) == std::vector<std::int64_t>{0, 1, 2});
}
