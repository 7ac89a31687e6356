#include "core/cuda/search.h"

#include <algorithm>
#include <limits>

#include "core/cpu/cpu_features.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/error.h"

namespace tandem::cuda {

Event::Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
Event::~Event() { cudaEventDestroy(event_); }
void Event::record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
float Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
  return milliseconds;
}

// ---- Timing

namespace {

// Runs per measurement, and measurements per candidate, of which the shortest counts. A candidate kHopeless
// times as slow as the best is measured once.
constexpr int kRuns = 3, kRounds = 3;
constexpr float kHopeless = 1.3f;
// A candidate whose first run is kFarBehind times as slow has no second run. Below kLongRun milliseconds the
// first run may have included loading its code.
constexpr float kFarBehind = 4.0f, kLongRun = 20.0f;

}  // namespace

Stopwatch::Stopwatch(CudaBackend& backend, std::int64_t bytes) : backend_(backend) {
  int cache = 0;
  check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, backend.device().index),
        "cudaDeviceGetAttribute");
  if (bytes > cache) return;
  try {
    elsewhere_ = backend.workspace({Index{cache} + cache / 4}, DType::u8);
  } catch (const VendorError&) {
  }
}

std::optional<float> Stopwatch::time(const std::function<bool()>& work, std::optional<float> to_beat) try {
  return measured(work, to_beat);
} catch (const VendorError&) {  // e.g. no memory for its workspace
  return {};
}

bool Stopwatch::run_cold(const std::function<bool()>& work, float& milliseconds) {
  check(cudaMemsetAsync(elsewhere_.raw(), 0, elsewhere_.bytes(), backend_.stream()), "cudaMemsetAsync");
  start_.record(backend_.stream());
  if (!work()) return false;
  end_.record(backend_.stream());
  milliseconds = end_.milliseconds_since(start_);
  return true;
}

std::optional<float> Stopwatch::measured(const std::function<bool()>& work, std::optional<float> to_beat) {
  const cudaStream_t stream = backend_.stream();
  start_.record(stream);
  if (!work()) return {};
  end_.record(stream);
  if (to_beat) {
    const float first = end_.milliseconds_since(start_);
    if (first > kLongRun && first > kFarBehind * *to_beat) return first;
  }
  float best = std::numeric_limits<float>::max();
  for (int round = 0; round < kRounds; ++round) {
    if (elsewhere_.defined()) {
      for (int i = 0; i < kRuns; ++i) {
        float milliseconds = 0;
        if (!run_cold(work, milliseconds)) return {};
        best = std::min(best, milliseconds);
      }
    } else {
      start_.record(stream);
      for (int i = 0; i < kRuns; ++i) {
        if (!work()) return {};
      }
      end_.record(stream);
      best = std::min(best, end_.milliseconds_since(start_) / kRuns);
    }
    if (to_beat && best > kHopeless * *to_beat) break;
  }
  return best;
}

// ---- Choosing

std::size_t choose_algorithm(CudaBackend& backend, const std::string& problem,
                             std::span<const std::string> names, std::int64_t bytes,
                             const std::function<bool(std::size_t)>& run) {
  auto& choices = backend.algorithm_table().choices;
  if (const auto known = choices.find(problem); known != choices.end()) {
    const auto at = std::ranges::find(names, known->second.name);
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  }
  Stopwatch watch(backend, bytes);
  const auto start = std::chrono::steady_clock::now();
  std::optional<float> first, best;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0 && std::chrono::steady_clock::now() - start > kTimingPatience) break;
    const auto found = watch.time([&] { return run(i); }, best);
    if (i == 0) first = found;
    if (!found || (best && *best <= *found)) continue;
    best = found;
    chosen = i;
  }
  if (!best) return 0;
  AlgorithmTable::Choice& choice = choices[problem] = {.name = names[chosen], .milliseconds = {}};
  if (first) choice.milliseconds.emplace_back("first", *first);
  choice.milliseconds.emplace_back("chosen", *best);
  return chosen;
}

int building_threads() { return std::clamp(cpu::threads(), 1, 8); }

}  // namespace tandem::cuda
