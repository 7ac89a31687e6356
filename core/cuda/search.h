// Search for the fastest of several algorithms: candidates are built in parallel, then timed one by one.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/tensor.h"

namespace tandem::cuda {

class CudaBackend;

// Time limit per problem for starting to time candidates.
inline constexpr std::chrono::milliseconds kTimingPatience{300};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream);
  // Synchronises with both events.
  float milliseconds_since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Times work on a backend's stream, which must not be captured.
class Stopwatch {
 public:
  // For work that reads and writes `bytes`. If L2 could hold them, it is flushed before every run, as the
  // rest of a step would do, if there is enough memory.
  Stopwatch(CudaBackend& backend, std::int64_t bytes);

  // Milliseconds of one run of `work`, which returns whether it succeeded; nullopt if it cannot run. Work far
  // slower than `to_beat` is measured less often.
  std::optional<float> time(const std::function<bool()>& work, std::optional<float> to_beat = {});

 private:
  std::optional<float> measured(const std::function<bool()>& work, std::optional<float> to_beat);
  bool run_cold(const std::function<bool()>& work, float& milliseconds);

  CudaBackend& backend_;
  Event start_, end_;
  Tensor elsewhere_;  // flushes the cache; undefined if not needed
};

// Chooses an algorithm for a problem, a key of the algorithm table: the table's entry, or else the fastest on
// the actual data, which is added to the table. `run` enqueues an algorithm and returns whether it succeeded.
std::size_t choose_algorithm(CudaBackend& backend, const std::string& problem,
                             std::span<const std::string> names, std::int64_t bytes,
                             const std::function<bool(std::size_t)>& run);

// Maximum number of threads that build candidates, if the CPU has as many cores.
int building_threads();

// Builds about `most` of the candidates in `order` on several threads; build(number, thread) returns a
// candidate or null. No build starts after `patience`. Returns the candidates in order, without failures.
template <class Candidate, class Build>
std::vector<std::unique_ptr<Candidate>> built_at_once(std::span<const std::int64_t> order, std::size_t most,
                                                      std::chrono::milliseconds patience, int threads,
                                                      const Build& build) {
  std::vector<std::unique_ptr<Candidate>> all(order.size());
  std::atomic<std::size_t> next = 0, built = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto work = [&](int thread) {
    while (built < most && std::chrono::steady_clock::now() - start < patience) {
      const std::size_t at = next++;
      if (at >= order.size()) return;
      try {
        all[at] = build(order[at], thread);
      } catch (const std::exception&) {  // the candidate is skipped
      }
      if (all[at]) ++built;
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();
  std::erase(all, nullptr);
  return all;
}

}  // namespace tandem::cuda
