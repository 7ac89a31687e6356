// Search for the fastest of several algorithms: candidates are built side by side, then timed one after the
// other.
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

// Of one problem: no candidate is begun to be timed later.
inline constexpr std::chrono::milliseconds kTimingPatience{300};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream);
  // Waits for both.
  float milliseconds_since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Times work on a backend's stream, which must not be captured.
class Stopwatch {
 public:
  // Of work that reads and writes `bytes`. Where the second cache could hold them, it is filled with
  // something else before every run, as the rest of a step does; if there is memory for that.
  Stopwatch(CudaBackend& backend, std::int64_t bytes);

  // Milliseconds of one run of `work`, which says whether it could be done; nullopt when it cannot be done
  // here. What is far behind `to_beat` is measured less often.
  std::optional<float> time(const std::function<bool()>& work, std::optional<float> to_beat = {});

 private:
  std::optional<float> measured(const std::function<bool()>& work, std::optional<float> to_beat);
  bool run_cold(const std::function<bool()>& work, float& milliseconds);

  CudaBackend& backend_;
  Event start_, end_;
  Tensor elsewhere_;  // fills the cache; absent where it need not be
};

// Which of several algorithms a problem, a line of the backend's table, is to be computed by: the one the
// table names, or else the fastest on the data at hand, which the table is told. `run` puts one on the stream
// and says whether it could; `bytes` as of a Stopwatch.
std::size_t choose_algorithm(CudaBackend& backend, const std::string& problem,
                             std::span<const std::string> names, std::int64_t bytes,
                             const std::function<bool(std::size_t)>& run);

// So many threads build candidates where a processor has as many cores.
int building_threads();

// Builds about `most` of the candidates that are numbered in `order`, in that order, on several threads:
// build(number, thread) gives one, or nothing. None is begun after `patience`; what has begun is waited for.
// In their order, without those that could not be built.
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
      } catch (const std::exception&) {  // a candidate less
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
