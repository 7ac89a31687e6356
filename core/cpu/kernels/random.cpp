// Random kernels. Element i uses word i % 4 of Philox block i / 4 for any dtype and any number of threads.
#include "core/kernels/random.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/dropout_mask.h"
#include "core/cpu/kernels/philox_lanes.h"
#include "core/error.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kWords = 4;
constexpr Index kParallelWords = 4096;

void check_count(Index count) {
  ensure(count <= Index{1} << 34, "random", "{} elements exceed the limit of 2^34 per key", count);
}

// Calls body(first element, count, words) for runs of at most kBlock elements; runs start at multiples of 4.
template <class Body>
void over_words(const RandomKey& key, Index count, Body&& body) {
  check_count(count);
  static_assert(kBlock % (kWords * kPhiloxLanes) == 0);
  const RandomKey at = kernels::resolved(key);
  const Index runs = (count + kBlock - 1) / kBlock;
  parallel_for(count >= kParallelWords, runs, [&](Index run) {
    const Index first = run * kBlock, n = std::min(kBlock, count - first);
    std::uint32_t words[kBlock];
    for (Index i = 0; i < n; i += kWords * kPhiloxLanes)
      philox_lanes(at, static_cast<std::uint32_t>((first + i) / kWords), words + i);
    body(first, n, words);
  });
}

// Generates values in f32 (f64 for f64 tensors) and rounds once on store.
template <class Body>
void generate(const RandomKey& key, const Tensor& y, Body&& body) {
  over_words(key, y.numel(), [&](Index first, Index n, const std::uint32_t* words) {
    if (y.dtype() == DType::f64) {
      double values[kBlock];
      body(words, values, n);
      store_block(values, y.raw(), y.dtype(), first, n);
    } else {
      float values[kBlock];
      body(words, values, n);
      store_block(values, y.raw(), y.dtype(), first, n);
    }
  });
}

struct CpuRandom final : RandomKernels {
  void random_uniform(const RandomKey& key, const Tensor& y, double low, double high) override {
    generate(key, y, [&]<class T>(const std::uint32_t* words, T* values, Index n) {
      const T from = static_cast<T>(low), width = static_cast<T>(high - low), bound = static_cast<T>(high);
      for (Index i = 0; i < n; ++i) {
        const T value = from + width * static_cast<T>(to_unit_float(words[i]));
        // Rounding may give the upper bound, which is excluded.
        values[i] = value < bound || !(from < bound) ? value : std::nextafter(bound, from);
      }
    });
  }

  void random_normal(const RandomKey& key, const Tensor& y, double mean, double stddev) override {
    // Box-Muller: words 0 and 1 of a block give elements 0 and 1, words 2 and 3 the others.
    generate(key, y, [&]<class T>(const std::uint32_t* words, T* values, Index n) {
      for (Index i = 0; i < n; i += 2) {
        const double u = (words[i] + 0.5) * 0x1p-32, v = (words[i + 1] + 0.5) * 0x1p-32;
        const double radius = stddev * std::sqrt(-2.0 * std::log(u)), angle = 2.0 * std::numbers::pi * v;
        values[i] = static_cast<T>(mean + radius * std::cos(angle));
        if (i + 1 < n) values[i + 1] = static_cast<T>(mean + radius * std::sin(angle));
      }
    });
  }

  void dropout(const Tensor& x, const RandomKey& key, double p, const Tensor& y) override {
    const Index count = x.numel();
    check_count(count);
    const DropoutMask mask(key, p);
    const auto run = [&]<class T>(TypeTag<T>) {
      const Index runs = (count + kBlock - 1) / kBlock;
      parallel_for(count >= kParallelWords, runs, [&](Index at) {
        const Index first = at * kBlock, n = std::min(kBlock, count - first);
        T values[kBlock];
        load_block(x.raw(), x.dtype(), first, values, n);
        store_block(mask.apply(values, first, n, values), y.raw(), y.dtype(), first, n);
      });
    };
    visit_compute(x.dtype(), run);
  }
};

}  // namespace

RandomKernels& CpuBackend::random() { return instance<CpuRandom>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
